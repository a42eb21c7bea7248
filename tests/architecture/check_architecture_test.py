#!/usr/bin/env python3
"""Shows that check_architecture.py fails on what it is there to find."""

import pathlib
import tempfile
import unittest

import check_architecture


class CheckArchitectureTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = pathlib.Path(folder.name)
        self.write("server/shard.cc", '#include "common/bytes.h"\n#include "net/message.h"\n')
        self.write("experiment/yaml.cc", "#include <yaml-cpp/yaml.h>\nauto e = getenv(\"HOME\");\n")
        self.write("net/grpc/stream.cc", "#include <grpcpp/channel.h>\n")
        self.write("server/control/control_service.cc", '#include "proto/control.grpc.pb.h"\n')
        self.write("worker/session.cc", '#include "worker/session.h"\n#include <vector>\n')
        self.write("tests/unit/both_test.cc", '#include "server/a.h"\n#include "worker/b.h"\n')

    def write(self, path, text):
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")

    def findings(self):
        return check_architecture.check_tree(self.root)[0]

    def assert_found(self, path, text, expected):
        self.write(path, text)
        findings = self.findings()
        self.assertEqual(len(findings), 1, findings)
        self.assertIn(expected, findings[0])
        self.assertTrue(findings[0].startswith(path + ":"), findings[0])

    def test_a_sound_tree_passes(self):
        self.assertEqual(self.findings(), [])
        self.assertEqual(check_architecture.main([str(self.root)]), 0)

    def test_an_empty_tree_fails(self):
        with tempfile.TemporaryDirectory() as empty:
            self.assertEqual(check_architecture.main([empty]), 1)

    def test_server_and_worker_stay_apart(self):
        self.assert_found("server/x.h", '#include "worker/session.h"\n', "server/ may include")
        (self.root / "server/x.h").unlink()
        self.assert_found("worker/x.cu", '  #  include "server/shard.h"\n', "worker/ may include")

    def test_common_includes_nothing_of_ours(self):
        self.assert_found("common/x.cc", '#include "proto/config.pb.h"\n', "no other room")

    def test_a_worker_knows_no_engine(self):
        self.assert_found("worker/x.cc", '#include "engine/runtime/network.h"\n', "worker/ may include")

    def test_nobody_includes_upwards(self):
        self.assert_found("engine/x.cc", '#include "experiment/run.h"\n', "engine/ may include")

    def test_sources_that_are_compiled_together_have_names_of_their_own(self):
        own = "namespace psgd {\nnamespace {\n\nconstexpr int kMost = 3;\n\n}  // namespace\n}  // namespace psgd\n"
        self.write("server/a.cc", own)
        self.write("worker/b.cc", own)
        self.assertEqual(self.findings(), [])
        self.assert_found("server/b.cc", own, "kMost is also a name of server/a.cc")
        self.write("server/CMakeLists.txt", "psgd_room(server SOURCES a.cc b.cc\n  ALONE b.cc)\n")
        self.assertEqual(self.findings(), [])

    def test_openssl_stays_in_net(self):
        self.write("net/credentials.cc", "#include <openssl/x509.h>\n")
        self.assertEqual(self.findings(), [])
        self.assert_found("server/x.cc", "#include <openssl/ssl.h>\n", "OpenSSL stays in net/")

    def test_grpc_stays_behind_its_files(self):
        self.assert_found("net/zmq/x.cc", "#include <grpcpp/server.h>\n", "gRPC stays behind")
        (self.root / "net/zmq/x.cc").unlink()
        self.assert_found("apps/x.cc", '#include "proto/control.grpc.pb.h"\n', "gRPC stays behind")

    def test_yaml_stays_in_experiment(self):
        self.assert_found("apps/x.cc", "#include <yaml-cpp/yaml.h>\n", "only experiment/ reads YAML")

    def test_the_environment_is_no_configuration(self):
        self.assert_found("net/x.cc", 'auto h = std::getenv("HOME");\n', "reads the environment")

    def test_nobody_waits_for_a_whole_gpu(self):
        for call in ("cudaDeviceSynchronize()", "cudaMemcpy(to, from, 4, kind)", "cudaMemset (at, 0, 4)"):
            self.assert_found("engine/cudnn/device.cc", f"  {call};\n", "waits for a whole GPU")
        self.write("engine/cudnn/device.cc", "cudaMemcpyAsync(to, from, 4, kind, stream);\n")
        self.assertEqual(self.findings(), [])

    def test_who_waits_for_a_gpu_says_why(self):
        self.write("engine/cudnn/feed.cc", "cudaEventSynchronize(arrived_);\n")
        self.assertEqual(self.findings(), [])
        self.assert_found("engine/cudnn/dense.cc", "cudaStreamSynchronize(stream);\n", "WAITERS")

    def test_long_files_are_listed_and_do_not_fail(self):
        self.write("data/fits.cc", "//\n" * 800)
        self.write("data/long.cc", "//\n" * 801)
        self.assertEqual(list(check_architecture.long_files(self.root)), [("data/long.cc", 801)])
        self.assertEqual(self.findings(), [])

    def test_rooms_inside_a_room_include_those_before_them(self):
        self.write("server/cluster/x.cc", '#include "server/shard/y.h"\n')
        self.write("compression/codec.cc", '#include "compression/sparse/topk.h"\n')
        self.write("compression/sparse/topk.cc", '#include "compression/codec.h"\n')
        self.assertEqual(self.findings(), [])
        self.assert_found("server/shard/x.h", '#include "server/durability/rocks.h"\n',
                          "server/shard/ may include no other room of server only")

    def test_promises(self):
        for word in ("TO" "DO", "FIX" "ME", "XX" "X", "HA" "CK"):
            self.assert_found("data/x.cc", f"// {word}: later\n", "promises work")
        self.write("data/x.cc", 'auto name = "/tmp/psgd-' + "X" * 6 + '";\n')
        self.assertEqual(self.findings(), [])

    def test_build_folders_are_not_read(self):
        self.write("build/release/gen/x.cc", '#include "server/shard.h"\n' * 1000)
        self.assertEqual(self.findings(), [])


if __name__ == "__main__":
    unittest.main()
