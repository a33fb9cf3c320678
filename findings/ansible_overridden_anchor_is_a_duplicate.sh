#!/usr/bin/env bash
# Ansible calls a key a duplicate that overrides one merged in from an anchor (`<<: *name`), which is what merge keys are
# for: with duplicate_dict_key = error (ANSIBLE_DUPLICATE_YAML_DICT_KEY) it drops the whole inventory file, warns, and
# goes on with no hosts and exit code 0; with warn, the text is that of a key that stands twice, so nobody can tell the
# two apart from it.
#
# What a migration meets: a tool that asks Ansible to be strict loses all brokers of a correct inventory.
#
# Versions: ansible-core 2.17.7 and 2.19.14, Python 3.11 or 3.12. Network: PyPI. Leaves nothing behind.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cat >"$folder/hosts.yml" <<'YAML'
kafka_broker:
  hosts:
    kafka1: &one
      broker_id: 1
      disks: 2
    kafka2:
      <<: *one
      broker_id: 2
YAML
for version in 2.17.7 2.19.14; do
    python3 -m venv "$folder/$version"
    "$folder/$version/bin/pip" install --quiet --disable-pip-version-check "ansible-core==$version"
    for kind in ignore warn error; do
        code=0
        ANSIBLE_HOME="$folder/home" ANSIBLE_NOCOLOR=true ANSIBLE_DUPLICATE_YAML_DICT_KEY=$kind \
            "$folder/$version/bin/ansible-inventory" -i "$folder/hosts.yml" --list >"$folder/out" 2>"$folder/err" || code=$?
        hosts=$(python3 -c 'import json, sys; print(len(json.load(sys.stdin)["_meta"]["hostvars"]))' <"$folder/out")
        said=$(tr '\n' ' ' <"$folder/err" | grep -ciE 'found a? ?duplicate' || true)
        echo "ansible-core $version, $kind: exit $code, $hosts hosts, says duplicate: $said" | tee -a "$folder/seen"
    done
done
cut -d, -f2- "$folder/seen" | sort -u >"$folder/short"
diff - "$folder/short" <<'SEEN' || { echo "it changed"; exit 1; }
 error: exit 0, 0 hosts, says duplicate: 1
 ignore: exit 0, 2 hosts, says duplicate: 0
 warn: exit 0, 2 hosts, says duplicate: 1
SEEN
echo "as described"
