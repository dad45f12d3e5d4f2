#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# etc/deps.sh [--list] [SET...]: makes sure that the packages of etc/packages are there: those of the set `build`, and
# those of each SET named (run, check, cluster, bare, long, bench, deb, dist). On Debian and Ubuntu the missing ones are installed, and daemons
# among them left off; elsewhere they are named and the exit code is 1. When nothing is missing, nothing is run but dpkg-query. --list only prints what is missing.
set -euo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")"
list=false
sets=(build)
for arg in "$@"; do
  case $arg in
    --list) list=true ;;
    build | run | check | cluster | bare | long | bench | deb | dist) sets+=("$arg") ;;
    *) echo "deps.sh: $arg: expected --list, build, run, check, cluster, bare, long, bench, deb or dist" >&2 && exit 2 ;;
  esac
done

# The packages of the sets asked for, as lines "package probe".
wanted() {
  local set package probe rest
  while read -r set package probe rest; do
    [[ $set == \#* || -z $set ]] && continue
    [[ " ${sets[*]} " == *" $set "* ]] && printf '%s %s\n' "$package" "$probe"
  done <packages
  return 0
}

header_exists() {
  local dir
  for dir in ${CPATH:+${CPATH//:/ }} /usr/local/include /usr/include; do
    [[ -e $dir/$1 ]] && return 0
  done
  return 1
}

# True if what the probe names is there, from whatever source.
answers() {
  local kind=${1%%:*} names name
  IFS='|' read -ra names <<<"${1#*:}"
  for name in "${names[@]}"; do
    case $kind in
      cmd) command -v "$name" >/dev/null && return 0 ;;
      pc) pkg-config --exists "$name" 2>/dev/null && return 0 ;;
      header) header_exists "$name" && return 0 ;;
      lib) compgen -G "/usr/lib*/$name" >/dev/null || compgen -G "/usr/lib/*/$name" >/dev/null && return 0 ;;
    esac
  done
  return 1
}

missing() {
  local rows installed='' package probe
  rows=$(wanted)
  if command -v dpkg-query >/dev/null; then
    # One call for all; it fails where some are unknown, which is what is asked.
    # shellcheck disable=SC2016  # the ${} are dpkg-query's
    installed=$(cut -d' ' -f1 <<<"$rows" |
      xargs dpkg-query -W -f '${Package} ${db:Status-Status}\n' 2>/dev/null || true)
  fi
  while read -r package probe; do
    grep -qxF "$package installed" <<<"$installed" || answers "$probe" || echo "$package"
  done <<<"$rows"
}

# What the package of a daemon starts, now and at the next boot.
declare -A units=([openssh-server]=ssh [munge]=munge [slurmd]=slurmd [slurmctld]=slurmctld)

# Runs the command that installs the packages, and leaves their daemons off: tests start their own.
without_daemons() {
  local policy=/usr/sbin/policy-rc.d package code=0
  if [[ ! -e $policy ]]; then
    # `env`, as this script has a function `install`.
    printf '#!/bin/sh\nexit 101\n' | "${as_root[@]}" env install -m 755 /dev/stdin $policy
    # shellcheck disable=SC2064  # what they are, not what they will be
    trap "${as_root[*]} rm -f $policy" EXIT
  fi
  "$@" || code=$?
  for package in "${packages[@]}"; do
    if [[ -n ${units[$package]:-} ]] && command -v systemctl >/dev/null; then
      "${as_root[@]}" systemctl --quiet disable "${units[$package]}" 2>/dev/null || true
    fi
  done
  return "$code"
}

install() {
  local as_root=()
  if [[ $(id -u) -ne 0 ]]; then
    if ! command -v sudo >/dev/null; then
      echo "deps.sh: not root, and no sudo. As root: apt-get install --no-install-recommends $*" >&2
      exit 1
    fi
    as_root=(sudo)
  fi
  local apt=("${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -q)
  local apt_install=("${apt[@]}" install -y --no-install-recommends "$@")
  echo "Installing: $*"
  # The package lists may be absent (a fresh image), which a simulation tells, or old, which only a download tells.
  "${apt_install[@]}" --simulate >/dev/null 2>&1 || "${apt[@]}" update
  without_daemons "${apt_install[@]}" || { "${apt[@]}" update && without_daemons "${apt_install[@]}"; }
}

mapfile -t packages < <(missing)
if [[ ${#packages[@]} -eq 0 ]]; then
  exit 0
elif $list; then
  printf '%s\n' "${packages[@]}"
elif command -v apt-get >/dev/null && command -v dpkg-query >/dev/null; then
  install "${packages[@]}"
else
  echo "deps.sh: these are missing; please install what your system calls (Debian's names):" >&2
  printf '  %s\n' "${packages[@]}" >&2
  exit 1
fi
