#include "experiment/record/trace_file.h"

#include <gtest/gtest.h>

#include "experiment/record/records.h"

namespace psgd {
namespace {

TraceSpan Span(TraceSpan::Kind kind, int64_t start, int64_t duration, uint64_t seq = 0) {
  TraceSpan span;
  span.set_kind(kind);
  span.set_start_ns(start);
  span.set_duration_ns(duration);
  span.set_worker(1);
  span.set_shard(2);
  span.set_seq(seq);
  return span;
}

TEST(TraceFile, APushFlowsFromItsWorkerOverTheShardAndBack) {
  const Record trace = Record::parse(TraceJson({{1, Span(TraceSpan::COMMIT, 8000, 1000, 5)},
                                                {1, Span(TraceSpan::APPLY, 6000, 2000, 5)},
                                                {1, Span(TraceSpan::PUSH, 3000, 9000, 5)},
                                                {1, Span(TraceSpan::COMPUTE, 1000, 4000)}}));
  std::vector<std::pair<std::string, double>> flow;
  for (const Record& event : trace["traceEvents"]) {
    const std::string phase = event["ph"];
    if (phase == "s" || phase == "t" || phase == "f") {
      EXPECT_EQ(event["id"], "1.2.5");
      flow.emplace_back(phase, event["ts"]);
    }
    if (event["name"] == "compute") {
      EXPECT_EQ(event["ts"], 0);  // the first span
      EXPECT_EQ(event["dur"], 4);
      EXPECT_EQ(event["pid"], 3);
    }
    if (event["name"] == "apply") {
      EXPECT_EQ(event["pid"], 1);
    }
  }
  EXPECT_EQ(flow, (std::vector<std::pair<std::string, double>>{{"s", 2}, {"f", 11}, {"t", 5}}));
}

TEST(TraceFile, EachServerIsAProcess) {
  const Record trace = Record::parse(TraceJson({{1, Span(TraceSpan::APPLY, 1000, 100, 1)},
                                                {2, Span(TraceSpan::APPLY, 2000, 100, 2)},
                                                {3, Span(TraceSpan::APPLY, 3000, 100, 3)},
                                                {1, Span(TraceSpan::PULL, 4000, 100)}}));
  std::map<int, std::string> processes;
  std::map<int, int> applied;
  for (const Record& event : trace["traceEvents"]) {
    if (event["name"] == "process_name") processes[event["pid"]] = event["args"]["name"];
    if (event["name"] == "apply") ++applied[event["pid"]];
  }
  std::vector<std::string> names;
  for (const auto& [process, name] : processes) {
    names.push_back(name);
    EXPECT_EQ(applied[process], name == "worker 1" ? 0 : 1) << name;
  }
  EXPECT_EQ(names,
            (std::vector<std::string>{"ps-server", "worker 1", "ps-server 2", "ps-server 3"}));
}

TEST(TraceFile, WithoutSpansThereIsNoFile) {
  const std::string path = testing::TempDir() + "psgd-trace.json";
  (void)remove(path.c_str());
  TraceFile file;
  EXPECT_TRUE(file.Write(path).ok());
  EXPECT_NE(access(path.c_str(), F_OK), 0);
  file.Add(1, {Span(TraceSpan::PULL, 1, 2)});
  EXPECT_TRUE(file.Write(path).ok());
  EXPECT_EQ(remove(path.c_str()), 0);
}

}  // namespace
}  // namespace psgd
