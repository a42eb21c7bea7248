"""A ps-server for tests whose programs join by themselves. The first argument of the test is the
folder of the programs.
"""

import contextlib
import json
import pathlib
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


@contextlib.contextmanager
def server(model="client", optimizer="worker", data="{batch: 4}", workers=1, cluster="",
           more=""):
    """A ps-server of a run; its address."""
    with tempfile.TemporaryDirectory() as folder:
        config = pathlib.Path(folder) / "config.yaml"
        config.write_text(CONFIG.format(model=model, optimizer=optimizer, data=data,
                                        workers=workers, cluster=cluster, more=more))
        process = subprocess.Popen(
            [pathlib.Path(sys.argv[1]) / "ps-server", "--config", config, "--port", "0", "--json",
             "--quiet", "--run-dir", f"{folder}/run"], stdout=subprocess.PIPE, text=True)
        try:
            yield json.loads(process.stdout.readline())["control"]
        finally:
            process.kill()
            process.communicate()
