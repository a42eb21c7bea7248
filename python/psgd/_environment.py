"""What ps-run says to the programs that it starts (experiment/launch/launcher.cc)."""

import os


def server() -> str:
    """HOST:PORT of the run's server; empty: this program runs alone."""
    return os.environ.get("PSGD_SERVER", "")


def name() -> str:
    """Of this worker; empty: made of host and process. The processes that torchrun starts are a worker each."""
    given, rank = os.environ.get("PSGD_NAME", ""), os.environ.get("LOCAL_RANK", "")
    several = os.environ.get("LOCAL_WORLD_SIZE", "1") != "1"
    return f"{given}-{rank}" if given and rank and several else given


def worker() -> str:
    """The number of this worker, from 0; empty: any."""
    return os.environ.get("PSGD_WORKER", "")


def seed() -> str:
    """The run's seed (`seed` of its config); empty: not known."""
    return os.environ.get("PSGD_SEED", "")


def tls_dir() -> str:
    return os.environ.get("PSGD_TLS_DIR", "")


def library() -> str:
    """Where libpsgd.so is; empty: where the system finds it."""
    return os.environ.get("PSGD_LIBRARY", "")
