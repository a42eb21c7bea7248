#!/usr/bin/env python3
"""What a run leaves for other programs, read by others' rules: TensorBoard's event files, a trace, and the
figures that the Grafana dashboard asks for."""

import json
import pathlib
import re
import struct
import unittest
import urllib.request

from fixture import BIN, CONFIG, Program, folder_of, run, wait_for

GRAFANA = pathlib.Path(__file__).resolve().parents[2] / "deploy" / "grafana" / "psgd.json"


def crc32c(data):
    """Bit by bit, as the polynomial says."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = (crc >> 1) ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


def masked(data):
    crc = crc32c(data)
    return (((crc >> 15) | (crc << 17)) + 0xA282EAD8) & 0xFFFFFFFF


def records(data):
    """The records of an event file, their checksums compared."""
    while data:
        (length,), (length_crc,) = struct.unpack("<Q", data[:8]), struct.unpack("<I", data[8:12])
        assert masked(data[:8]) == length_crc
        record, (record_crc,) = data[12:12 + length], struct.unpack("<I", data[12 + length:16 + length])
        assert masked(record) == record_crc
        yield record
        data = data[16 + length:]


def fields(message):
    """The fields of a protobuf message: number -> values as they are on the wire."""
    found, at = {}, 0

    def varint():
        nonlocal at
        value = shift = 0
        while True:
            byte = message[at]
            at += 1
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return value

    while at < len(message):
        key = varint()
        size = {0: None, 1: 8, 5: 4}.get(key & 7)
        if key & 7 == 0:
            value = varint()
        else:
            size = size or varint()
            value, at = message[at:at + size], at + size
        found.setdefault(key >> 3, []).append(value)
    return found


def doubles(data):
    return list(struct.unpack(f"<{len(data) // 8}d", data))


class RecordsTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = folder_of(cls, "records")
        config = cls.folder / "recorded.yaml"
        config.write_text(CONFIG.lstrip())
        cls.run_dir = cls.folder / "run"
        run(BIN / "ps-run", config, "--run-dir", cls.run_dir, "--trace", "12", "--set", "train.epochs=30", "--quiet")

    def test_event_files(self):
        files = list(self.run_dir.glob("events.out.tfevents.*"))
        self.assertEqual(len(files), 1)
        events = [fields(record) for record in records(files[0].read_bytes())]
        self.assertEqual(events[0][3], [b"brain.Event:2"])
        values = {}
        for event in events[1:]:
            for summary in event[5]:
                for value in map(fields, fields(summary)[1]):
                    values.setdefault(value[1][0].decode(), []).append((event.get(2, [0])[0], value))
        scalar = lambda tag: [(step, struct.unpack("<f", value[2][0])[0]) for step, value in values[tag]]
        metrics = [json.loads(line) for line in (self.run_dir / "metrics.jsonl").read_text().splitlines()]
        evaluated = [(record["clock"], record["accuracy"]) for record in metrics if record["kind"] == "evaluation"]
        self.assertEqual([step for step, _ in scalar("test/accuracy")], [clock for clock, _ in evaluated])
        for (_, ours), (_, accuracy) in zip(scalar("test/accuracy"), evaluated):
            self.assertAlmostEqual(ours, accuracy, places=6)
        # At the end no worker trains any more.
        last = [record for record in metrics if record["kind"] == "progress" and record["loss"] is not None][-1]
        self.assertAlmostEqual(scalar("train/loss")[-1][1], last["loss"], places=5)
        for tag in ("speed/samples_per_second", "traffic/pushed_MB", "staleness/mean", "residual/norm", "train/learning_rate"):
            self.assertGreater(max(value for _, value in scalar(tag)), 0, tag)
        histogram = fields(values["staleness/pulls"][-1][1][5][0])
        limits, buckets = doubles(histogram[6][0]), doubles(histogram[7][0])
        self.assertEqual(limits, [i + 0.5 for i in range(len(limits))])
        self.assertEqual(sum(buckets), doubles(histogram[3][0])[0])
        text = values["config"][0][1]
        self.assertEqual(fields(fields(text[9][0])[1][0])[1], [b"text"])
        self.assertIn(b"name: shown", fields(text[8][0])[8][0])

    def test_a_push_flows_on_one_clock_from_worker_to_shard_and_back(self):
        events = json.loads((self.run_dir / "trace.json").read_text())["traceEvents"]
        flows = {}
        for event in events:
            if event["ph"] in "stf":
                flows.setdefault(event["id"], {}).setdefault(event["ph"], event)
        whole = [flow for flow in flows.values() if set(flow) == set("stf")]
        self.assertGreater(len(whole), 20)
        for flow in whole:
            self.assertLessEqual(flow["s"]["ts"], flow["t"]["ts"])
            self.assertLessEqual(flow["t"]["ts"], flow["f"]["ts"])
            self.assertNotEqual(flow["s"]["pid"], flow["t"]["pid"])
        self.assertEqual({"data", "pull", "install", "compute", "push", "apply", "commit"},
                         {event["name"] for event in events if event["ph"] in "Xb"})
        names = {event["args"]["name"] for event in events if event["ph"] == "M"}
        self.assertTrue({"ps-server", "worker 0", "worker 1", "shard 0", "shard 2", "steps"} <= names, names)

    def test_each_server_of_a_run_is_a_process_with_its_shards(self):
        several = self.folder / "several"
        run(BIN / "ps-run", self.folder / "recorded.yaml", "--run-dir", several, "--trace", "12", "--set", "train.epochs=1",
            "--set", "cluster.servers=2", "--quiet")
        events = json.loads((several / "trace.json").read_text())["traceEvents"]
        processes = {event["pid"]: event["args"]["name"] for event in events if event["name"] == "process_name"}
        shards = {}
        for event in events:
            if event["name"] == "apply":
                shards.setdefault(processes[event["pid"]], set()).add(event["tid"])
        self.assertEqual(set(shards), {"ps-server", "ps-server 2"})
        self.assertEqual(set.intersection(*shards.values()), set())

    def test_the_grafana_dashboard_asks_for_what_there_is(self):
        dashboard = json.loads(GRAFANA.read_text())
        expressions = [target["expr"] for panel in dashboard["panels"] for target in panel["targets"]]
        expressions += [variable["query"]["query"] for variable in dashboard["templating"]["list"] if isinstance(variable["query"], dict)]
        asked = {name for expression in expressions for name in re.findall(r"psgd_[a-z0-9_]+", expression)}
        self.assertGreater(len(asked), 20)
        live = Program("ps-run", str(self.folder / "recorded.yaml"), "--run-dir", str(self.folder / "spread"), "--http", "0",
                       "--set", "cluster.servers=2", ready=r"dashboard: (http://[0-9.:]+/)")
        self.addCleanup(live.end)

        def missing():
            text = urllib.request.urlopen(live.found.group(1) + "metrics").read().decode()
            return asked - set(re.findall(r"^(psgd_[a-z0-9_]+)[ {]", text, re.MULTILINE))

        # Some metrics appear with the first evaluation or the first checkpoint.
        wait_for(lambda: not missing())
        self.assertEqual(missing(), set())


if __name__ == "__main__":
    unittest.main()
