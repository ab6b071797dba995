#!/usr/bin/env bash
# The rooms of libcusim call each other as runtime/sim/rooms says: read from the objects' symbols.
# Each room has one header, of fewer than 300 lines. A planted call upwards is seen.
set -u
objects=build/obj/runtime/sim
[ -d $objects/api ] || { echo "1..0 # SKIP the objects are not there"; exit 0; }
work=$(mktemp -d); trap 'rm -rf "$work"' EXIT

symbols() { # FOLDER: lines `D|U room/file symbol`
  local o
  for o in "$1"/*/*.o; do
    nm "$o" | awk -v f="${o#"$1"/}" '$(NF-1) == "U" { print "U", f, $NF }
      $(NF-1) ~ /^[TDBRVWCGS]$/ { print "D", f, $NF }'
  done
}
calls_up() { # SYMBOLS: the calls that runtime/sim/rooms does not allow
  awk 'FNR == NR { if ($0 ~ /^#/) next; room = $1; sub(":", "", room); known[room] = 1
                   may[room, room] = 1; for (i = 2; i <= NF; i++) may[room, $i] = 1; next }
       $1 == "D" { split($2, at, "/"); home[$3] = at[1]; if (!known[at[1]]) print at[1] ": no such room" }
       $1 == "U" { user[++n] = $2; name[n] = $3 }
       END { for (i = 1; i <= n; i++) { split(user[i], at, "/"); to = home[name[i]]
             if (to != "" && !may[at[1], to]) print user[i] " calls " to ": " name[i] } }' \
    runtime/sim/rooms "$1" | sort -u
}
check() { # NUMBER NAME BAD: bad is empty
  if [ -z "$3" ]; then echo "ok $1 - $2"; else echo "not ok $1 - $2"; echo "$3" | sed 's/^/# /'; fi
}

echo "1..3"
symbols $objects >"$work/symbols"
check 1 "no room calls upwards" "$(calls_up "$work/symbols")"
{ cat "$work/symbols"; echo "U check/fault.o cuLaunchKernel"; } >"$work/planted"
[ "$(calls_up "$work/planted")" = "check/fault.o calls api: cuLaunchKernel" ] && bad= || bad=unseen
check 2 "a planted call upwards is seen" "$bad"
bad=
for room in $(sed -n 's/^\([a-z]*\):.*/\1/p' runtime/sim/rooms); do
  headers=(runtime/sim/"$room"/*.h)
  [ ${#headers[@]} = 1 ] && [ "${headers[0]}" = "runtime/sim/$room/$room.h" ] &&
    [ "$(wc -l <"${headers[0]}")" -lt 300 ] || bad+="$room: ${headers[*]}"$'\n'
done
check 3 "a room has one header, of fewer than 300 lines" "$bad"
