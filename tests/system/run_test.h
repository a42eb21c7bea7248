// The base of all system tests: a folder, a small config and the real programs.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/system/process.h"

namespace psgd {

using Json = nlohmann::json;

// Checks at the end of each test that none of its processes is left.
class RunTest : public testing::Test {
 protected:
  RunTest();
  ~RunTest() override;
  void TearDown() override;

  std::string Path(const std::string& name) const { return folder_ + "/" + name; }
  std::string Write(const std::string& name, const std::string& contents) const;

  // A network of a few thousand weights, on generated clusters that it can learn. An epoch is 32
  // steps of two workers.
  std::string SmallConfig() const;

  // A sweep over runs whose workers are a program, tests/python/counting_worker.py with these
  // words; `more` has its axes.
  std::string ProgramSweep(const std::string& words, const std::string& more) const;

  // The command of ps-run on the small config, in Path(run), with more arguments.
  std::vector<std::string> PsRun(const std::string& run,
                                 const std::vector<std::string>& arguments) const;
  Ended RunSmall(const std::string& run, const std::vector<std::string>& arguments) const;

  // Runs workers on the plain loops of the reference engine.
  void RunOnReference(const std::string& run, const std::string& config,
                      const std::vector<std::string>& settings, int workers = 1) const;

  Json Summary(const std::string& run) const;
  std::string Weights(const std::string& run) const;
  std::string File(const std::string& name) const;
  // Records of metrics.jsonl.
  std::vector<Json> Metrics(const std::string& run, const std::string& kind) const;

  // Losses on the test set, after each epoch.
  std::vector<double> Losses(const std::string& run) const;

  // "a=1", "b=2" as --set a=1 --set b=2.
  static std::vector<std::string> Sets(const std::vector<std::string>& assignments);
  // A command of scripts/netns.sh on a network of this process's own, because tests run at the same
  // time.
  static std::vector<std::string> NetworkScript(const std::vector<std::string>& arguments);
  // HOST:PORT of the control plane, as ps-run or ps-server printed it; empty: not printed.
  static std::string ServerOf(Process& program);
  static Json StatusOf(const std::string& server);
  // Whether a process listens there.
  static bool Listens(const std::string& address);

 private:
  std::string folder_;
  std::string TemporaryFolder() const { return Path("tmp"); }
};

std::vector<std::string> operator+(std::vector<std::string> a, const std::vector<std::string>& b);

}  // namespace psgd
