#!/usr/bin/env bash
# Files call only rooms above their own (rooms.txt), as the symbols of their objects say, and no
# header of a room has more than 300 lines. Variables of gen/ are those of variables.txt.
. "$(dirname "$0")/tap.sh"

sources() { find gen runtime -name '*.c' -o -name '*.cc' -o -name '*.S'; }

# calls ROOMS OBJECTS, names of sources on stdin: a line for each call that ROOMS forbids, and for
# each file, room or object that is missed; fails when there is one.
calls() {
  local rooms=$1 objects=$2 source
  while read -r source; do
    [ -f "$objects/${source%.*}.o" ] && printf '%s/%s.o\0' "$objects" "${source%.*}"
    echo "source ${source%.*} $source" >&3
  done 3>"$work/sources" | xargs -0r nm -A -P >"$work/symbols"
  awk -v prefix="$objects/" '
    function room_of(path,   folder, room) { # of the nearest folder above `path` that is a room
      for (folder = path; sub(/\/[^\/]*$/, "", folder) && !room;) room = by_folder[folder]
      return room
    }
    function may_not(from, to,   i) {
      if (library[from] != library[to]) return "of another library"
      if (to > from) return name[from] " is above " name[to]
      for (i in never)
        if (never[i] == from && index(folder_of[to] "/", substr(i, index(i, "!") + 1) "/") == 1)
          return name[from] " never calls " substr(i, index(i, "!") + 1)
      return ""
    }
    function complain(text) { print text; bad = 1 }
    FILENAME == ARGV[1] { # the list of rooms
      if ($1 ~ /^-+$/) libraries++
      if ($1 ~ /^(#.*|-+|header)?$/) next
      name[++rooms] = $1; folder_of[rooms] = $2; by_folder[$2] = rooms; library[rooms] = libraries
      for (i = 3; i <= NF; i++) never[rooms $i] = rooms
      next
    }
    FILENAME == ARGV[2] { # source STEM FILE
      file[$2] = $3; room[$2] = room_of($3)
      if (room[$2]) members[room[$2]]++
      else complain($3 " is in no room")
      next
    }
    { # OBJECT: SYMBOL KIND ...
      stem = substr($1, length(prefix) + 1); sub(/\.o:$/, "", stem)
      seen[stem] = 1
      if ($3 ~ /^[Uwv]$/) wants[++nwants] = stem " " $2
      else if ($3 ~ /^[A-Z]$/) { owner[library[room[stem]], $2] = stem; anyone[$2] = stem }
    }
    END {
      for (stem in file) if (!seen[stem]) complain(file[stem] " has no object")
      for (i = 1; i <= rooms; i++) if (!members[i]) complain(folder_of[i] " has no files")
      for (i = 1; i <= nwants; i++) {
        split(wants[i], want, " "); from = want[1]; symbol = want[2]
        to = owner[library[room[from]], symbol]
        if (!to) to = anyone[symbol]
        if (!to || !room[from] || !room[to]) continue
        why = may_not(room[from], room[to])
        if (why) complain(file[from] " calls " symbol " of " file[to] ": " why)
      }
      exit bad
    }' "$rooms" "$work/sources" "$work/symbols"
}

short_headers() { # of gen/, runtime/ and templates/lib/; those that rooms.txt excuses have no more than it says
  find gen runtime templates/lib -name '*.h' -print0 | xargs -0 wc -l | awk '
    FNR == NR { if ($1 == "header") most[$2] = $3; next }
    $2 == "total" { next }
    { limit = $2 in most ? most[$2] : 300; excused[$2] = $1 > 300 }
    $1 > limit { print $2 " has " $1 " lines, more than " limit; bad = 1 }
    END {
      for (file in most) if (!excused[file]) { print file " needs no excuse"; bad = 1 }
      exit bad
    }' tests/rooms.txt -
}

# Planted calls, one of each kind that is forbidden: they must be named, and nothing else.
planted() (
  local at=$work/planted
  mkdir -p "$at"/{low,mid,high,far} && cd "$at" || return
  printf '%s\n' 'low low' 'mid mid' 'high high !mid' '--' 'far far' >rooms
  echo 'int upper(void); int lower(void) { return upper(); }' >low/a.c
  echo 'int lower(void); int middle(void) { return lower(); } int beside = 1;' >mid/b.c
  echo 'extern int beside; int middle(void); int also(void) { return beside + middle(); }' >mid/c.c
  echo 'int middle(void); int lower(void); int upper(void) { return middle() + lower(); }' >high/d.c
  echo 'int lower(void); int distant(void) { return lower(); }' >far/e.c
  for source in */*.c; do cc -c -o "${source%.c}.o" "$source" || return; done
  ls */*.c | calls rooms . >said && return 1
  sort said | diff - <(printf '%s\n' 'far/e.c calls lower of low/a.c: of another library' \
    'high/d.c calls middle of mid/b.c: high never calls mid' \
    'low/a.c calls upper of high/d.c: low is above high')
)

# variables LIST OBJECTS, names of sources on stdin: those in writable memory, as "source variable",
# that the list lacks, and those of the list that are not there; fails when there is one. Tables of
# addresses lie in .data.rel.ro, which is constant once the program runs.
variables() {
  sed -E "s|(.*)\.c$|$2/\1.o|" | xargs nm -A -f sysv | awk -F'|' -v objects="$2/" '
    $7 ~ /^(\.t?(data|bss)|\*COM\*)/ && $7 !~ /^\.data\.rel\.ro/ && $4 !~ /SECTION/ {
      source = name = substr($1, length(objects) + 1)
      sub(/\.o:.*/, ".c", source); sub(/^[^:]*:/, "", name); sub(/[. ].*/, "", name)
      print source, name}' | sort -u >"$work/variables"
  awk '!/^#/ {print $1, $2}' "$1" | sort | diff - "$work/variables"
}
no_others() { find gen -name '*.c' | variables tests/variables.txt build/obj; }
planted_variables() (
  mkdir -p "$work/kept" && cd "$work/kept" || return
  echo 'static int a; int b = 1; const char *const c[] = {"c"}; static __thread int d;
    int *f(int i) { static int e; return i ? &a : c[0] ? &e : &d; }' >x.c
  cc -fPIC -c x.c && printf '%s\n' '# why' 'x.c a one' 'x.c gone no more' >list || return
  echo x.c | variables list . >said && return 1
  sed -n 's/^[<>]/&/p' said | sort |
    diff - <(printf '%s\n' '< x.c gone' '> x.c b' '> x.c d' '> x.c e')
)

if [ ! -d build/obj ] || ! command -v nm >/dev/null; then skip "rooms" "requires nm and build/obj"
else
  checked() { sources | calls tests/rooms.txt build/obj; }
  ok "rooms call those above them" checked
  ok "no other variables than those of variables.txt" no_others
  if command -v cc >/dev/null; then
    ok "calls that are forbidden are found" planted
    ok "variables that are not in the list are found" planted_variables
  else skip "calls that are forbidden are found" "cc is not installed"; fi
fi
ok "headers of rooms have at most 300 lines" short_headers
tap_done
