# zoo.sh: what the tests of the convolutional networks in models/ share. Source it after tap.sh.
python_with torch torchvision numpy
weights() { # weights NUMBER MODEL SETTINGS...: so many, without running statistics
  local got set=
  [ $# -gt 2 ] && set="--set ${*:3}"
  got=$(build/nngen show models/$2.lua $set --plan | python3 -c 'import json, math, sys
print(sum(math.prod(t["shape"]) for t in json.load(sys.stdin)["tensors"]
          if t["role"] == "param" and ".running_" not in t["name"]))')
  [ "$got" = $1 ] || { echo "$got parameters, want $1"; return 1; }
}
oracle() { # oracle DTYPE SIZE MODEL SETTINGS... [-- OPTIONS...]
  local dtype=$1 size=$2 model=$3 set=; shift 3
  while [ $# -gt 0 ] && [ "$1" != -- ]; do set+=" $1"; shift; done
  build/nngen models/$model.lua --quiet --check --dtype $dtype --set batch=2 classes=10 \
    size=$size $set "${@:2}"
}
made() { # made SIZE MODEL SETTINGS...: weights, a picture and logits of torchvision
  folder=$work/${*:2}
  folder=${folder//[ =]/_}
  [ -f "$folder/want.npy" ] || { mkdir -p "$folder" &&
    $python tests/models/torch_zoo.py "$2" "$folder" $1 "${@:3}"; }
}
same() { # same DTYPE GATE SIZE MODEL SETTINGS...: logits as torchvision's, too
  local dtype=$1 gate=$2 folder; shift 2
  made "$@" && oracle $dtype "$@" -- --input image="$folder/image.npy" \
    --weights "$folder/weights.safetensors" --output "$folder" &&
    $python tests/models/compare_npy.py "$folder/want.npy" "$folder/logits.npy" $gate
}
small() { # small SIZE MODEL SETTINGS...: one network of three
  few 1/3 || return 0
  if [ -z "$python" ]; then
    ok "${*:2} fp32" oracle fp32 "$@"
    skip "${*:2} as torchvision's" "python3-torch and python3-torchvision are not installed"
    return
  fi
  ok "${*:2} as torchvision's" same fp32 1e-5 "$@"
  long || return
  case ${*:2} in
  resnet50) ok "${*:2} fp16" same fp16 2e-3 "$@" ;;
  "mobilenet_v2 width=0.5") ok "${*:2} bf16" same bf16 1e-2 "$@" ;;
  esac
}
