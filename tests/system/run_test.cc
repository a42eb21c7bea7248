#include "tests/system/run_test.h"

#include <arpa/inet.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <regex>
#include <sstream>

#include "tests/folders.h"

namespace psgd {
namespace {

constexpr char kSmall[] = R"(name: small
model: {zoo: mlp, hidden: [32]}
data:
  format: synthetic
  synthetic: {train_samples: 2048, test_samples: 512, shape: [1, 8, 8], classes: 10, noise: 0.5}
  batch: 32
train: {epochs: 3}
optimizer: {sgd: {learning_rate: 0.05, momentum: 0.9}}
compression: {dense_below: 256}
cluster: {shards: 2, workers: 2, segment: 16}
)";

}  // namespace

RunTest::RunTest() {
  std::string pattern = "/tmp/psgd-XXXXXX";
  folder_ = mkdtemp(pattern.data());
  // TMPDIR marks all processes started from here on, and gives them their own temporary folder.
  std::filesystem::create_directory(TemporaryFolder());
  setenv("TMPDIR", TemporaryFolder().c_str(), 1);
}

RunTest::~RunTest() {
  unsetenv("TMPDIR");
  std::error_code ignored;
  std::filesystem::remove_all(folder_, ignored);
}

void RunTest::TearDown() {
  // A process that was asked to end may need a moment.
  const auto left = [&] { return ProcessesWith("TMPDIR=" + TemporaryFolder()); };
  Eventually([&] { return left().empty(); }, std::chrono::seconds(10));
  EXPECT_THAT(left(), testing::IsEmpty())
      << "processes are left behind, and the ports that they hold";
  std::vector<std::string> files;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(TemporaryFolder())) {
    if (!entry.is_directory()) files.push_back(entry.path());
  }
  EXPECT_THAT(files, testing::IsEmpty()) << "temporary files are left behind";
}

std::string RunTest::Write(const std::string& name, const std::string& contents) const {
  std::ofstream(Path(name), std::ios::binary) << contents;
  return Path(name);
}

std::string RunTest::SmallConfig() const { return Write("small.yaml", kSmall); }

std::string RunTest::ProgramSweep(const std::string& words, const std::string& more) const {
  Write("programs.yaml",
        "model: client\ndata: {batch: 4}\ncluster: {shards: 1, workers: 2, deadline: 30s}\n");
  return Write("programs-sweep.yaml",
               "name: programs\nbase: programs.yaml\ntwin: none\nlaunch: {threads: 1, command: "
               "[env, PYTHONPATH=" +
                   SourceDir() + "/python, /usr/bin/python3, -B, " + SourceDir() +
                   "/tests/python/counting_worker.py, " + words + "]}\n" + more);
}

std::vector<std::string> RunTest::PsRun(const std::string& run,
                                        const std::vector<std::string>& arguments) const {
  return std::vector<std::string>{"ps-run", SmallConfig(), "--run-dir", Path(run)} + arguments;
}

Ended RunTest::RunSmall(const std::string& run, const std::vector<std::string>& arguments) const {
  return RunProgram(PsRun(run, arguments));
}

void RunTest::RunOnReference(const std::string& run, const std::string& config,
                             const std::vector<std::string>& settings, int workers) const {
  Process server(std::vector<std::string>{"ps-server", "--config", config, "--port", "0",
                                          "--run-dir", Path(run)} +
                 Sets(settings));
  const std::string address = ServerOf(server);
  std::vector<std::unique_ptr<Process>> started;
  for (int i = 0; i < workers; ++i) {
    started.push_back(std::make_unique<Process>(std::vector<std::string>{
        "ps-worker", "--cpu", "--engine", "reference", "--server", address}));
  }
  for (const auto& worker : started) {
    EXPECT_EQ(worker->Wait(std::chrono::seconds(180)).code, 0) << worker->Err();
  }
  EXPECT_EQ(server.Wait().code, 0) << server.Err();
}

Json RunTest::Summary(const std::string& run) const {
  return Json::parse(File(run + "/summary.json"), nullptr, false);
}

std::string RunTest::Weights(const std::string& run) const {
  return File(run + "/weights.safetensors");
}

std::string RunTest::File(const std::string& name) const {
  std::ifstream file(Path(name), std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

std::vector<Json> RunTest::Metrics(const std::string& run, const std::string& kind) const {
  std::vector<Json> records;
  std::istringstream lines(File(run + "/metrics.jsonl"));
  for (std::string line; std::getline(lines, line);) {
    Json record = Json::parse(line, nullptr, false);
    if (record.is_object() && record.value("kind", "") == kind) records.push_back(record);
  }
  return records;
}

std::vector<double> RunTest::Losses(const std::string& run) const {
  std::vector<double> losses;
  for (const Json& evaluation : Metrics(run, "evaluation")) losses.push_back(evaluation["loss"]);
  return losses;
}

std::vector<std::string> RunTest::NetworkScript(const std::vector<std::string>& arguments) {
  return std::vector<std::string>{"/usr/bin/env", "PSGD_NETNS=psgd" + std::to_string(getpid()),
                                  SourceDir() + "/scripts/netns.sh"} +
         arguments;
}

std::vector<std::string> RunTest::Sets(const std::vector<std::string>& assignments) {
  std::vector<std::string> arguments;
  for (const std::string& assignment : assignments) {
    arguments.push_back("--set");
    arguments.push_back(assignment);
  }
  return arguments;
}

std::string RunTest::ServerOf(Process& program) {
  program.WaitFor("--server ");
  const std::string text = program.Out() + program.Err();
  std::smatch found;
  return std::regex_search(text, found, std::regex("--server (\\S+:[0-9]+)\\s")) ? found[1].str()
                                                                                 : "";
}

Json RunTest::StatusOf(const std::string& server) {
  const Ended ended = RunProgram({"ps-ctl", "status", "--server", server, "--json"});
  return Json::parse(ended.out, nullptr, false);
}

bool RunTest::Listens(const std::string& address) {
  const size_t colon = address.rfind(':');
  sockaddr_in to{};
  to.sin_family = AF_INET;
  to.sin_port = htons(static_cast<uint16_t>(std::stoi(address.substr(colon + 1))));
  inet_pton(AF_INET, address.substr(0, colon).c_str(), &to.sin_addr);
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const bool listens = connect(fd, reinterpret_cast<sockaddr*>(&to), sizeof to) == 0;
  close(fd);
  return listens;
}

std::vector<std::string> operator+(std::vector<std::string> a, const std::vector<std::string>& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

}  // namespace psgd
