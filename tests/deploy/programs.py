"""The programs that units and manifests start, and what they understand."""

import os
import pathlib
import re
import subprocess

ROOT = pathlib.Path(__file__).resolve().parents[2]
DEPLOY = ROOT / "deploy"
BIN = pathlib.Path(os.environ.get("PSGD_BIN", ROOT / "build/release/bin")).resolve()
SKIPPED = 77
START_OPTIONS = {"--crash-only": 1, "--show-finished": 2}  # and how many words
UNITS = {"ms": 1e-3, "s": 1, "min": 60, "m": 60, "h": 3600}


def manifests_of_program():
    """The run of the manifests with a program in place of ps-worker, as text."""
    return subprocess.run(["kubectl", "kustomize", DEPLOY / "kubernetes"], capture_output=True, text=True, check=True).stdout


def options_of(program):
    """All that --help lists, and whether each takes a value, which stands one space after the name."""
    text = subprocess.run([BIN / program, "--help"], capture_output=True, text=True, check=True).stdout
    return {name: bool(value) for name, value in re.findall(r"^  (?:-\w,)?(--[a-z-]+)( \S)?", text, re.MULTILINE)}


def check_command(words):
    """What is wrong with a command of ours; None: nothing."""
    program, arguments = pathlib.Path(words[0]).name, list(words[1:])
    if program == "start-server.sh":
        while arguments and arguments[0] in START_OPTIONS:
            arguments = arguments[START_OPTIONS[arguments[0]]:]
        if len(arguments) < 2 or any(word.startswith("-") for word in arguments[:2]):
            return f"{program} takes RUN_DIR CONFIG first, not {arguments[:2]}"
        program, arguments = "ps-server", arguments[2:]
    options = options_of(program)
    while arguments:
        name, given, _ = arguments.pop(0).partition("=")
        if name not in options:
            return f"{program} has no option {name}"
        if options[name] and not given:
            if not arguments:
                return f"{program} {name} needs a value"
            arguments.pop(0)
    return None


def value_of(words, name):
    """Of --name=VALUE or --name VALUE."""
    for word, following in zip(words, list(words[1:]) + [None]):
        if word == name:
            return following
        if word.startswith(name + "="):
            return word.partition("=")[2]
    return None


def seconds(text):
    number, unit = re.fullmatch(r"([0-9.]+)\s*([a-z]*)", str(text)).groups()
    return float(number) * UNITS[unit or "s"]
