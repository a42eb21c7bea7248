#!/usr/bin/env python3
"""The manifests: fields that Kubernetes knows, names that lead somewhere, commands that the programs understand.
Exit code 77: there is no python3-yaml or python3-jsonschema here."""

import copy
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

from programs import BIN, DEPLOY, SKIPPED, check_command, manifests_of_program, seconds, value_of

try:
    import jsonschema
    import yaml
except ImportError as missing:
    print(f"skipped: {missing}; apt-get install python3-yaml python3-jsonschema")
    sys.exit(SKIPPED)

MANIFEST = DEPLOY / "kubernetes" / "run.yaml"
SCHEMA = yaml.safe_load((pathlib.Path(__file__).parent / "kubernetes_schema.yaml").read_text())
# The user chooses the names below these keys.
FREE = {"labels", "annotations", "matchLabels", "data", "requests", "limits", "selector"}


def documents():
    return list(yaml.safe_load_all(MANIFEST.read_text()))


def check(document):
    jsonschema.Draft7Validator(SCHEMA).validate(document)


def keys_of(node, path=()):
    """Paths of all keys that Kubernetes gave their names."""
    if isinstance(node, list):
        for i, item in enumerate(node):
            yield from keys_of(item, path + (i,))
    elif isinstance(node, dict):
        for key, value in node.items():
            yield path + (key,)
            # A service's selector has labels; a set's selector has a field.
            if key not in FREE or (key == "selector" and "matchLabels" in value):
                yield from keys_of(value, path + (key,))


def changed(document, path, change):
    other = copy.deepcopy(document)
    node = other
    for key in path[:-1]:
        node = node[key]
    change(node, path[-1])
    return other


class SchemaTest(unittest.TestCase):
    def test_the_manifests_are_sound(self):
        kinds = [document["kind"] for document in documents()]
        self.assertEqual(kinds, ["ConfigMap", "Service", "NetworkPolicy", "StatefulSet", "Job"])
        for document in documents():
            check(document)

    def test_a_misspelt_field_is_found_wherever_it_is(self):
        def misspell(node, key):
            node[key[:-1] + "_"] = node.pop(key)

        tried = 0
        for document in documents():
            for path in keys_of(document):
                with self.subTest(kind=document["kind"], path=path), self.assertRaises(jsonschema.ValidationError):
                    check(changed(document, path, misspell))
                tried += 1
        self.assertGreater(tried, 150)

    def test_a_value_of_another_kind_is_found(self):
        for document in documents():
            for path in keys_of(document):
                with self.subTest(kind=document["kind"], path=path), self.assertRaises(jsonschema.ValidationError):
                    check(changed(document, path, lambda node, key: node.__setitem__(key, 3.5)))


class MeaningTest(unittest.TestCase):
    @classmethod
    def documents(cls):
        return documents()

    @classmethod
    def setUpClass(cls):
        kinds = {document["kind"]: document for document in cls.documents()}
        cls.config_map, cls.service, cls.policy = (kinds[kind] for kind in ("ConfigMap", "Service", "NetworkPolicy"))
        cls.servers, cls.workers = kinds["StatefulSet"], kinds["Job"]
        cls.pods = {each["kind"]: each["spec"]["template"] for each in (cls.servers, cls.workers)}
        cls.config = yaml.safe_load(cls.config_map["data"]["run.yaml"])

    def container(self, kind):
        return self.pods[kind]["spec"]["containers"][0]

    def server_of_workers(self):
        return value_of(self.container("Job")["command"], "--server")

    def test_commands_are_understood(self):
        for kind in self.pods:
            self.assertIsNone(check_command(self.container(kind)["command"]))
        self.assertEqual(check_command(["ps-worker", "--cpu", "--sever=a:1"]), "ps-worker has no option --sever")
        self.assertEqual(check_command(["ps-worker", "--server"]), "ps-worker --server needs a value")

    def test_the_config_is_understood(self):
        with tempfile.NamedTemporaryFile("w", suffix=".yaml") as file:
            file.write(self.config_map["data"]["run.yaml"])
            file.flush()
            ended = subprocess.run([BIN / "ps-worker", "--cpu", "--dry-run", file.name], capture_output=True, text=True, check=False)
        self.assertEqual(ended.returncode, 0, ended.stderr)

    def test_names_lead_somewhere(self):
        server = self.container("StatefulSet")
        ports = {port["name"]: port["containerPort"] for port in server["ports"]}
        for probe in ("startupProbe", "readinessProbe", "livenessProbe"):
            self.assertIn(server[probe]["httpGet"]["port"], ports)
        self.assertEqual(str(ports["control"]), value_of(server["command"], "--port"))
        self.assertEqual(f"0.0.0.0:{ports['http']}", value_of(server["command"], "--http"))
        self.assertEqual(str(ports["http"]), value_of(server["command"], "--show-finished"))
        for port in self.service["spec"]["ports"]:
            self.assertEqual(ports[port["targetPort"]], port["port"])
        self.assertEqual(self.servers["spec"]["serviceName"], self.service["metadata"]["name"])
        first = f"{self.servers['metadata']['name']}-0.{self.service['metadata']['name']}"
        self.assertEqual(self.server_of_workers(), f"{first}:{ports['control']}")
        self.assertEqual(value_of(server["command"], "--advertise"), f"$(POD_NAME).{self.service['metadata']['name']}")
        given = {kind: [each["name"] for each in self.container(kind)["env"]] for kind in self.pods}
        self.assertIn("POD_NAME", given["StatefulSet"])
        name = value_of(self.container("Job")["command"], "--name")
        self.assertEqual(name, "worker-$(INDEX)" if "ps-worker" in self.container("Job")["command"] else None)
        self.assertIn("INDEX" if name else "PSGD_NAME", given["Job"])

    def test_labels_select_what_they_should(self):
        labels = {kind: pod["metadata"]["labels"] for kind, pod in self.pods.items()}
        selected = self.service["spec"]["selector"]
        self.assertEqual(selected, self.servers["spec"]["selector"]["matchLabels"])
        self.assertEqual(selected, self.policy["spec"]["podSelector"]["matchLabels"])
        self.assertLessEqual(selected.items(), labels["StatefulSet"].items())
        self.assertEqual(self.policy["spec"]["ingress"][0]["from"][0]["podSelector"]["matchLabels"], labels["Job"])
        self.assertFalse(selected.items() <= labels["Job"].items())

    def test_everything_mounted_is_there(self):
        claims = {claim["metadata"]["name"] for claim in self.servers["spec"]["volumeClaimTemplates"]}
        for kind, pod in self.pods.items():
            volumes = {volume["name"] for volume in pod["spec"]["volumes"]} | (claims if kind == "StatefulSet" else set())
            self.assertEqual({mount["name"] for mount in self.container(kind)["volumeMounts"]}, volumes)
        mounts = {mount["name"]: mount["mountPath"] for mount in self.container("StatefulSet")["volumeMounts"]}
        run_dir, config = self.container("StatefulSet")["command"][4:6]
        self.assertTrue(run_dir.startswith(mounts["runs"] + "/"))
        self.assertIn(pathlib.Path(config).name, self.config_map["data"])
        self.assertEqual(str(pathlib.Path(config).parent), mounts["config"])

    def test_there_is_time_to_drain(self):
        drain = seconds(value_of(self.container("Job")["command"], "--drain-deadline"))
        self.assertGreater(self.pods["Job"]["spec"]["terminationGracePeriodSeconds"], drain)
        # The server is not drained, so its journal must be as durable as its volume.
        self.assertIn("--crash-only", self.container("StatefulSet")["command"])
        self.assertEqual(self.config["durability"]["acknowledge"], "fsync")

    def test_there_are_as_many_workers_as_the_run_waits_for(self):
        spec = self.workers["spec"]
        self.assertEqual(spec["completions"], self.config["cluster"]["workers"])
        self.assertEqual(spec["parallelism"], spec["completions"])
        # Kubernetes allows failure policies only with "Never".
        self.assertEqual(self.pods["Job"]["spec"]["restartPolicy"], "Never")


@unittest.skipUnless(shutil.which("kubectl"), "no kubectl")
class ProgramTest(MeaningTest):
    """The same with a PyTorch program in place of ps-worker."""

    @classmethod
    def documents(cls):
        return list(yaml.safe_load_all(manifests_of_program()))

    def server_of_workers(self):
        return {each["name"]: each.get("value") for each in self.container("Job")["env"]}["PSGD_SERVER"]

    def test_the_manifests_are_sound(self):
        self.assertEqual(len(self.documents()), len(documents()))
        for document in self.documents():
            check(document)

    def test_commands_are_understood(self):
        self.assertIsNone(check_command(self.container("StatefulSet")["command"]))
        self.assertEqual(self.container("Job")["command"][0], "python3")

    def test_the_config_is_understood(self):
        self.assertEqual(self.config["model"], "client")  # program_test.py starts a run with it

    def test_there_is_time_to_drain(self):
        self.assertEqual(self.config["durability"]["acknowledge"], "fsync")  # the program itself just ends


if __name__ == "__main__":
    unittest.main()
