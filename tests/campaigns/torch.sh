#!/usr/bin/env bash
# Runs the tests of PyTorch programs (tests/torch/laws_test.py) with PyTorch 2.6, which Debian 12 does not
# have: in a folder with Debian 13, made once and kept. It wants root, 2 GB of disk and about 4 minutes
# the first time; SHARDSIM_DEBIAN13 names another folder for it.
#
# usage: torch.sh SHARDSIM [TEST...]   SHARDSIM: a command that needs nothing but the C library
set -euo pipefail
exec </dev/null

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
folder=${SHARDSIM_DEBIAN13:-${XDG_CACHE_HOME:-$HOME/.cache}/shardsim/debian13}
mirror=${SHARDSIM_DEBIAN_MIRROR:-http://deb.debian.org/debian}
# The reference BLAS, which PyTorch's package is content with, is 17 times slower.
packages=(python3-torch libtorch-dev libopenblas0-pthread python3-dev pybind11-dev python3-numpy g++
  ccache)
command=$1
shift

say() { printf 'torch: %s\n' "$*" >&2; }

make_base() {
  rm -rf --one-file-system "$folder"
  debootstrap --variant=minbase trixie "$folder" "$mirror"
}

# The file `made` says which packages it has. Another list is installed into a folder that is there.
make_folder() {
  say "making a folder with Debian 13 and PyTorch 2.6 in $folder: 2 GB, about 4 minutes, once"
  mkdir -p "$(dirname "$folder")" # The log lies beside it.
  # shellcheck disable=SC2016
  if ! {
    { [[ -f $folder/made ]] || make_base; } &&
      unshare --mount bash -c '
        mount --bind /proc "$1/proc"
        chroot "$1" apt-get update -q
        chroot "$1" apt-get install -y -q --no-install-recommends "${@:2}"
      ' folder "$folder" "${packages[@]}"
  } >"$folder.log" 2>&1; then
    tail -n 20 "$folder.log" >&2
    say "the folder could not be made; the log is $folder.log"
    exit 70
  fi
  printf '%s\n' "${packages[*]}" >"$folder/made"
}

if ((EUID != 0)); then
  say "a folder with Debian 13 wants root: call it with sudo"
  exit 70
fi
[[ -f $folder/made && $(<"$folder/made") == "${packages[*]}" ]] || make_folder

# Mounts are gone when the tests have ended.
mkdir -p "$folder/shardsim"
# shellcheck disable=SC2016
exec unshare --mount bash -c '
  mount --bind /proc "$1/proc"
  mount --bind "$2" "$1/shardsim"
  exec chroot "$1" env HOME=/root XDG_CACHE_HOME=/root/.cache PYTHONDONTWRITEBYTECODE=1 \
    SHARDSIM="/shardsim/${3#"$2"/}" bash /shardsim/tests/campaigns/torch_laws.sh "${@:4}"
' tests "$folder" "$root" "$command" "$@"
