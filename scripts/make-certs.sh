#!/usr/bin/env bash
# Makes what a secured run needs: an authority and a certificate for each role, in one folder that
# ps-server, ps-worker, ps-ctl and ps-run take as --tls-dir. docs/security.md says which file goes where.
#
#   scripts/make-certs.sh certs head-node 10.0.0.1    the server answers to these names, too
#   scripts/make-certs.sh --renew worker certs        a new certificate and key for one role; a server's keeps its
#                                                     names, unless others are given
#   scripts/make-certs.sh --days 30 certs             valid for so long (365; the authority ten years)
#
# What is there already stays as it is: run it again to add what is missing.
set -euo pipefail
umask 077

usage() { sed -n '2,10s/^# \{0,1\}//p' "${BASH_SOURCE[0]}" >&2; exit 2; }
fail() { echo "scripts/make-certs.sh: $*" >&2; exit 1; }

days=365 renew=
while [[ ${1:-} == --* ]]; do
  case $1 in
    --days) [[ ${2:-} =~ ^[0-9]{1,5}$ ]] || usage; days=$2 ;;
    --renew) [[ ${2:-} =~ ^(server|worker|observer|admin)$ ]] || usage; renew=$2 ;;
    *) usage ;;
  esac
  shift 2
done
(($# >= 1)) || usage
dir=$1
shift
command -v openssl > /dev/null || fail "openssl is missing; first: apt-get install openssl"
for host in "$@"; do
  [[ $host =~ ^[A-Za-z0-9.:_-]{1,253}$ ]] || fail "\"$host\" is neither a host's name nor an address"
done

mkdir -p "$dir"
work=$(mktemp -d "$dir/.new-XXXXXX")
trap 'rm -rf "$work"' EXIT

# An empty configuration, so that no settings of this machine get into the certificates.
printf '[req]\ndistinguished_name = dn\n[dn]\n' > "$work/openssl.cnf"

key() { openssl genpkey -algorithm EC -pkeyopt ec_paramgen_curve:P-256 -out "$1" 2> /dev/null; }
request() { openssl req -new -config "$work/openssl.cnf" -key "$1" -subj "$2"; }

authority() {
  if [[ -e $dir/ca.crt ]]; then
    echo "kept $dir/ca.crt"
    return
  fi
  key "$work/ca.key"
  printf '%s\n' 'basicConstraints = critical, CA:TRUE, pathlen:0' 'keyUsage = critical, keyCertSign' \
    'subjectKeyIdentifier = hash' > "$work/ca.ext"
  request "$work/ca.key" '/O=psgd/CN=psgd authority' |
    openssl x509 -req -signkey "$work/ca.key" -sha256 -days 3650 -set_serial "0x1$(openssl rand -hex 15)" \
      -extfile "$work/ca.ext" -out "$work/ca.crt" 2> "$work/log" || fail "openssl: $(cat "$work/log")"
  mv "$work/ca.key" "$work/ca.crt" "$dir/"
  echo "made $dir/ca.crt and ca.key, which can make more certificates: keep it away from the cluster"
}

# The names for a server's certificate: this machine's names and the given names. Without given
# names, a renewal keeps the names of the old certificate.
names() {
  if (($# == 0)) && [[ -e $dir/server.crt ]]; then
    local old
    old=$(openssl x509 -in "$dir/server.crt" -noout -ext subjectAltName) || return
    old=$(sed -n '/DNS:\|IP Address:/{s/IP Address:/IP:/g;s/[[:space:]]//g;p}' <<< "$old")
    [[ -z $old ]] || { echo "$old" && return; }
  fi
  local host list=DNS:localhost,IP:127.0.0.1,IP:::1
  for host in "$(hostname)" "$@"; do
    if is_address "$host"; then list+=,IP:$host; else list+=,DNS:$host; fi
  done
  echo "$list"
}

is_address() { [[ $1 =~ ^[0-9.]+$ || $1 == *:* ]]; }

# The names that the present server certificate lacks.
names_lacking() {
  local host check lacking=()
  for host in "$@"; do
    if is_address "$host"; then check=-checkip; else check=-checkhost; fi
    openssl x509 -in "$dir/server.crt" -noout "$check" "$host" | grep -q 'does match' || lacking+=("$host")
  done
  echo "${lacking[*]}"
}

certificate() {
  local role=$1 usage=clientAuth lacking=
  shift
  if [[ -e $dir/$role.crt && $renew != "$role" ]]; then
    echo "kept $dir/$role.crt"
    [[ $role != server ]] || lacking=$(names_lacking "$@")
    [[ -z $lacking ]] || echo "it is not for $lacking; one that is for these names:" \
      "scripts/make-certs.sh --renew server $dir $*"
    return
  fi
  [[ -e $dir/ca.key ]] || fail "$dir/ca.key, which makes certificates, is not here; run this where it is"
  local names=
  [[ $role != server ]] || names=$(names "$@") ||
    fail "cannot read the names in $dir/server.crt; give them: $0 --renew server $dir NAME..."
  # A server that follows connects to the leading server as a client.
  [[ $role == server ]] && usage=serverAuth,clientAuth
  key "$work/$role.key"
  {
    echo 'basicConstraints = critical, CA:FALSE'
    echo 'keyUsage = critical, digitalSignature'
    echo "extendedKeyUsage = $usage"
    [[ $role != server ]] || echo "subjectAltName = $names"
  } > "$work/$role.ext"
  request "$work/$role.key" "/O=psgd/OU=$role/CN=psgd $role" |
    openssl x509 -req -CA "$dir/ca.crt" -CAkey "$dir/ca.key" -sha256 -days "$days" \
      -set_serial "0x1$(openssl rand -hex 15)" -extfile "$work/$role.ext" -out "$work/$role.crt" \
      2> "$work/log" || fail "openssl: $(cat "$work/log")"
  mv "$work/$role.key" "$work/$role.crt" "$dir/"
  echo "made $dir/$role.crt and $role.key"
}

if [[ -n $renew ]]; then
  [[ -e $dir/ca.crt ]] || fail "no $dir/ca.crt to renew a certificate of; make all first: $0 $dir"
  certificate "$renew" "$@"
  exit
fi
authority
for role in server worker observer admin; do certificate "$role" "$@"; done
