#!/usr/bin/env bash
# Ansible's INI inventories: values of a [group:vars] section are Python literals too, though its documentation says
# that they are strings ("var=FALSE would create a string"; `ansible-doc -t inventory ansible.builtin.ini`).
#
# What a migration meets: a rack, a release or an id that looks like a number becomes another one without a word, and
# `ansible-inventory --list` has no trace of what was written. 1_1 is 11, 1e3 is 1000.0, 3.10 is 3.1, True is a truth;
# in group_vars (YAML 1.1) 12:30:45 is 45045 as well. Quotes keep the text: "1_1" in a section or in YAML, '"1_1"' with a
# host. What is no literal of Python stays as it is: 01 is text in INI, and 1 in YAML.
#
# Versions: ansible-core 2.17.7 and 2.19.14, Python 3.11 or 3.12. Network: PyPI. Leaves nothing behind.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
mkdir -p "$folder/estate/group_vars"
cat >"$folder/estate/hosts" <<'INI'
[kafka_broker]
kafka1 host_rack=1_1 host_id=01 host_release=3.10 host_quoted='"1_1"'

[kafka_broker:vars]
vars_rack=1_1
vars_rack_e=1e3
vars_release=3.10
vars_truth=True
vars_id=01
vars_quoted="1_1"
INI
cat >"$folder/estate/group_vars/kafka_broker.yml" <<'YAML'
yaml_rack: 12:30:45
yaml_id: 01
yaml_quoted: "1_1"
YAML
cat >"$folder/expected" <<'JSON'
{"host_id": "01", "host_quoted": "1_1", "host_rack": 11, "host_release": 3.1, "vars_id": "01", "vars_quoted": "1_1", "vars_rack": 11, "vars_rack_e": 1000.0, "vars_release": 3.1, "vars_truth": true, "yaml_id": 1, "yaml_quoted": "1_1", "yaml_rack": 45045}
JSON
for version in 2.17.7 2.19.14; do
    python3 -m venv "$folder/$version"
    "$folder/$version/bin/pip" install --quiet --disable-pip-version-check "ansible-core==$version"
    echo "ansible-core $version"
    ANSIBLE_HOME="$folder/home" "$folder/$version/bin/ansible-inventory" -i "$folder/estate/hosts" --host kafka1 |
        python3 -c 'import json, sys; print(json.dumps(json.load(sys.stdin), sort_keys=True))' | tee "$folder/seen"
    diff "$folder/expected" "$folder/seen" || { echo "it changed"; exit 1; }
done
echo "as described"
