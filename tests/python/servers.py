"""Servers of the tests: one for programs that join by themselves, and those of a ps-run. The first
argument of the test is the folder of the programs.
"""

import contextlib
import json
import pathlib
import re
import subprocess
import sys
import tempfile

CONFIG = """
name: errors
model: {model}
data: {data}
optimizer: {optimizer}
cluster: {{shards: 1, workers: {workers}, deadline: 5s, lease: 1s{cluster}}}
{more}
"""


def children(pid, program):
    """Processes that `pid` started and that run `program`, oldest first."""
    found = pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return [int(child) for child in found
            if pathlib.Path(f"/proc/{child}/comm").read_text().strip() == program]


def is_in_sync(said, name):
    """Whether every shard of the run has two copies in sync. `said`: what ps-run said so far."""
    etcd = re.search("--etcd ([^ \n]+)", said)
    if etcd is None:
        return False
    status = subprocess.run([pathlib.Path(sys.argv[1]) / "ps-ctl", "status", "--etcd",
                             etcd.group(1), "--run", name, "--json"], capture_output=True,
                            check=False)
    shards = json.loads(status.stdout)["shards"] if status.returncode == 0 else []
    return bool(shards) and all(len(shard["in_sync"]) == 2 for shard in shards)


@contextlib.contextmanager
def server(model="client", optimizer="worker", data="{batch: 4}", workers=1, cluster="",
           more="", options=()):
    """A ps-server of a run; its address."""
    with tempfile.TemporaryDirectory() as folder:
        config = pathlib.Path(folder) / "config.yaml"
        config.write_text(CONFIG.format(model=model, optimizer=optimizer, data=data,
                                        workers=workers, cluster=cluster, more=more))
        process = subprocess.Popen(
            [pathlib.Path(sys.argv[1]) / "ps-server", "--config", config, "--port", "0", "--json",
             "--quiet", "--run-dir", f"{folder}/run", *options], stdout=subprocess.PIPE, text=True)
        try:
            yield json.loads(process.stdout.readline())["control"]
        finally:
            process.kill()
            process.communicate()
