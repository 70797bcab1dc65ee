#!/usr/bin/env bash
# Installs the Debian packages that building, the quick start or the tests need and that are missing.
#
#   install_packages.sh quickstart                  build, PostgreSQL 15, Kafka's Java and Maven
#   install_packages.sh quickstart-without-kafka    the same without Java and Maven
#   install_packages.sh tests                       everything
#
# Instant when nothing is missing. No service is started and no system database cluster is created.
set -euo pipefail

build=(g++ cmake ninja-build pkg-config
  libpq-dev librdkafka-dev libyaml-cpp-dev prometheus-cpp-dev libspdlog-dev libfmt-dev libcli11-dev
  libcivetweb-dev libsystemd-dev nlohmann-json3-dev libgtest-dev libgmock-dev libbenchmark-dev)
postgresql=(postgresql-15 postgresql-client-15 python3 python3-psycopg2 curl)
kafka=(openjdk-17-jre-headless maven python3-confluent-kafka)
tests=(openjdk-17-jdk-headless python3-pytest python3-yaml xz-utils unzip prometheus systemd pgbouncer iproute2 iptables
  clang-14 clang-format-14 libclang-rt-14-dev openssl faketime)

case "${1:-}" in
  quickstart) wanted=("${build[@]}" "${postgresql[@]}" "${kafka[@]}") ;;
  quickstart-without-kafka) wanted=("${build[@]}" "${postgresql[@]}") ;;
  tests) wanted=("${build[@]}" "${postgresql[@]}" "${kafka[@]}" "${tests[@]}") ;;
  *) echo "usage: install_packages.sh quickstart|quickstart-without-kafka|tests" >&2; exit 64 ;;
esac

if ! command -v apt-get >/dev/null; then
  echo "install_packages.sh: this needs Debian 12 (apt-get)" >&2
  exit 69
fi

is_installed() {
  [[ "$(dpkg-query -W -f='${db:Status-Status}' "$1" 2>/dev/null)" == installed ]]
}

missing=()
for package in "${wanted[@]}"; do
  is_installed "$package" || missing+=("$package")
done
[[ ${#missing[@]} -eq 0 ]] && exit 0

as_root=()
if [[ $(id -u) -ne 0 ]]; then
  if ! command -v sudo >/dev/null; then
    echo "install_packages.sh: not root and no sudo; as root, type:" >&2
    echo "  apt-get update && apt-get install --no-install-recommends ${missing[*]}" >&2
    exit 77
  fi
  as_root=(sudo)
fi

# What we put into the system for the time of the installation, taken out again at the end.
policy=/usr/sbin/policy-rc.d
no_cluster=/etc/postgresql-common/createcluster.d/outbox-relay.conf
made_files=()
remove_made_files() {
  local file
  for file in "${made_files[@]}"; do "${as_root[@]}" rm -f "$file"; done
}
trap remove_made_files EXIT

apt=("${as_root[@]}" env DEBIAN_FRONTEND=noninteractive RUNLEVEL=1 apt-get -qq
  -o Acquire::Retries=3 -o DPkg::Lock::Timeout=300)
install=("${apt[@]}" install --yes --no-install-recommends -o Dpkg::Use-Pty=0)

echo "installing ${missing[*]}" >&2
"${apt[@]}" update

# Exit status 101 means "not allowed": no package may start its service.
if [[ ! -e $policy ]]; then
  made_files+=("$policy")
  printf '#!/bin/sh\nexit 101\n' | "${as_root[@]}" tee "$policy" >/dev/null
  "${as_root[@]}" chmod 755 "$policy"
fi
# postgresql-15 creates the system's cluster when it is configured, unless postgresql-common, which
# must therefore be there first, says otherwise.
if [[ " ${missing[*]} " == *" postgresql-15 "* ]]; then
  "${install[@]}" postgresql-common >/dev/null
  if [[ ! -e $no_cluster ]]; then
    made_files+=("$no_cluster")
    "${as_root[@]}" mkdir -p "$(dirname "$no_cluster")"
    echo 'create_main_cluster = false' | "${as_root[@]}" tee "$no_cluster" >/dev/null
  fi
fi

"${install[@]}" "${missing[@]}" >/dev/null

# Only promtool and the pgbouncer program are wanted; the packages also enable daemons for the next boot.
for package in prometheus pgbouncer; do
  if [[ " ${missing[*]} " == *" $package "* ]] && command -v systemctl >/dev/null; then
    "${as_root[@]}" systemctl --quiet disable "$package.service"
  fi
done
