#!/usr/bin/env bash
# Puts the servers that Debian lacks into build/servers/, through Maven and the pom beside this file.
#
#   fetch_servers.sh kafka                 build/servers/kafka/lib/*.jar
#   fetch_servers.sh postgresql-14 …       build/servers/postgresql-14/{bin,lib,share}, also -16, -17, -18
#   fetch_servers.sh all                   every one of them
#
# Instant when they are there; the pom's checksum, kept beside each, tells when it is not the same one.
set -euo pipefail

support="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
pom="$support/servers/pom.xml"
servers="${OUTBOX_RELAY_SERVERS:-$support/../../build/servers}"
mkdir -p "$servers"
servers="$(cd "$servers" && pwd)"

wanted=("$@")
if [[ "${wanted[*]}" == all ]]; then
  wanted=(kafka postgresql-14 postgresql-16 postgresql-17 postgresql-18)
fi
if [[ ${#wanted[@]} -eq 0 ]]; then
  echo "usage: fetch_servers.sh all | [kafka] [postgresql-14|-16|-17|-18]…" >&2
  exit 64
fi

for program in java mvn unzip xz; do
  [[ ${wanted[*]} == kafka && $program == @(unzip|xz) ]] && continue
  if ! command -v "$program" >/dev/null; then
    echo "fetch_servers.sh: $program is missing: tests/support/install_packages.sh tests" >&2
    exit 69
  fi
done

exec 9>"$servers/.lock"  # Two runs at once would take turns in moving the same directory away.
flock 9

checksum="$(sha256sum <"$pom")"

# Maven's output, and its colours, only where it fails.
maven() {
  local output
  if ! output="$(mvn --batch-mode --quiet -Dmaven.wagon.http.retryHandler.count=3 --file "$pom" "$@" 2>&1)"; then
    printf '%s\n' "$output" "fetch_servers.sh: Maven could not fetch ${name}" >&2
    return 69
  fi
}

fetch() {
  local name="$1" fetched="$servers/$1.fetching"
  case "$name" in
    kafka)
      maven "-Doutput=$fetched/lib" dependency:copy-dependencies@kafka
      ;;
    postgresql-14 | postgresql-16 | postgresql-17 | postgresql-18)
      maven "-Doutput=$fetched/jar" "dependency:copy@$name"
      unzip -q -p "$fetched"/jar/*.jar '*.txz' | tar -xJ -C "$fetched"
      rm -r "$fetched/jar"
      ;;
    *)
      echo "fetch_servers.sh: '$name' is not one of kafka, postgresql-14, -16, -17, -18" >&2
      exit 64
      ;;
  esac
}

for name in "${wanted[@]}"; do
  target="$servers/$name"
  if [[ -f $target/.pom-checksum && "$(<"$target/.pom-checksum")" == "$checksum" ]]; then continue; fi
  rm -rf "$target" "$target.fetching"
  fetch "$name"
  echo "$checksum" >"$target.fetching/.pom-checksum"
  mv "$target.fetching" "$target"
done
