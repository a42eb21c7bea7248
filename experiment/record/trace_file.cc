#include "experiment/record/trace_file.h"

#include <algorithm>
#include <set>
#include <tuple>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "common/files.h"
#include "experiment/record/records.h"

namespace psgd {
namespace {

constexpr size_t kMostSpans = 400000;
// Process numbers in the trace.
constexpr int kServer = 1;  // the server that coordinates
constexpr int kFirstWorker = 2;
constexpr int kOtherServers = 1'000'000;  // plus the server's number
constexpr int kSteps = 0;                 // row of a worker
constexpr int kFirstShard = 1;            // the first row of pushes and of shards

bool OfShard(const TraceSpan& span) {
  return span.kind() == TraceSpan::APPLY || span.kind() == TraceSpan::COMMIT;
}
int Process(const PlacedSpan& placed) {
  if (!OfShard(placed.span)) return kFirstWorker + static_cast<int>(placed.span.worker());
  return placed.server == 1 ? kServer : kOtherServers + static_cast<int>(placed.server);
}
std::string ProcessName(const PlacedSpan& placed) {
  if (!OfShard(placed.span)) return absl::StrCat("worker ", placed.span.worker());
  return placed.server == 1 ? "ps-server" : absl::StrCat("ps-server ", placed.server);
}
int Row(const TraceSpan& span) {
  return OfShard(span) || span.kind() == TraceSpan::PUSH
             ? kFirstShard + static_cast<int>(span.shard())
             : kSteps;
}
std::string Name(const TraceSpan& span) {
  return absl::AsciiStrToLower(TraceSpan::Kind_Name(span.kind()));
}

class Writer {
 public:
  explicit Writer(int64_t start) : start_(start) {}

  void NameRow(const PlacedSpan& placed) {
    const TraceSpan& span = placed.span;
    const int process = Process(placed);
    const int row = Row(span);
    if (named_.insert({process, -1}).second)
      AddName("process_name", process, 0, ProcessName(placed));
    if (!named_.insert({process, row}).second) return;
    const std::string name = row == kSteps   ? "steps"
                             : OfShard(span) ? absl::StrCat("shard ", span.shard())
                                             : absl::StrCat("pushes to shard ", span.shard());
    AddName("thread_name", process, row, name);
  }

  void AddSpan(const PlacedSpan& placed) {
    NameRow(placed);
    const TraceSpan& span = placed.span;
    const int process = Process(placed);
    const double start = Microseconds(span.start_ns());
    Record event{
        {"name", Name(span)}, {"cat", OfShard(span) ? "server" : "worker"},
        {"pid", process},     {"tid", Row(span)},
        {"ts", start},        {"args", {{"clock", span.clock()}, {"worker", span.worker()}}}};
    if (span.seq() > 0) event["args"]["seq"] = span.seq();
    if (span.kind() != TraceSpan::PUSH) {
      event["ph"] = "X";
      event["dur"] = static_cast<double>(span.duration_ns()) / 1e3;
      Add(event);
      if (span.kind() == TraceSpan::APPLY) AddFlow("t", process, Row(span), span, start);
      return;
    }
    // Pushes to one shard overlap, so a push is a pair of begin and end events.
    const double end = Microseconds(span.start_ns() + span.duration_ns());
    event["ph"] = "b";
    event["id"] = Flow(span);
    Add(event);
    // Arrows need a bar at each end, so they start and end in the row of steps.
    AddFlow("s", process, kSteps, span, start);
    AddFlow("f", process, kSteps, span, end);
    event["ph"] = "e";
    event["ts"] = end;
    Add(event);
  }

  std::string Text() const {
    return absl::StrCat("{\"displayTimeUnit\":\"ms\",\"traceEvents\":[\n", text_, "\n]}\n");
  }

 private:
  double Microseconds(int64_t ns) const { return static_cast<double>(ns - start_) / 1e3; }
  static std::string Flow(const TraceSpan& span) {
    return absl::StrCat(span.worker(), ".", span.shard(), ".", span.seq());
  }
  void AddFlow(const char* phase, int process, int row, const TraceSpan& span, double at) {
    Record event{{"ph", phase},    {"name", "push"}, {"cat", "push"}, {"id", Flow(span)},
                 {"pid", process}, {"tid", row},     {"ts", at}};
    if (*phase == 'f') event["bp"] = "e";
    Add(event);
  }
  void AddName(const char* what, int process, int row, const std::string& name) {
    Add({{"ph", "M"}, {"name", what}, {"pid", process}, {"tid", row}, {"args", {{"name", name}}}});
  }

  void Add(const Record& event) {
    absl::StrAppend(&text_, text_.empty() ? "" : ",\n", event.dump());
  }

  const int64_t start_;
  std::set<std::pair<int, int>> named_;
  std::string text_;
};

}  // namespace

void TraceFile::Add(uint32_t server, std::vector<TraceSpan> spans) {
  std::lock_guard lock(mutex_);
  if (spans_.size() + spans.size() > kMostSpans) return;
  for (TraceSpan& span : spans) spans_.push_back({server, std::move(span)});
}

absl::Status TraceFile::Write(const std::string& path) {
  std::lock_guard lock(mutex_);
  if (spans_.size() == written_) return absl::OkStatus();
  written_ = spans_.size();
  return WriteFileAtomically(path, TraceJson(spans_));
}

std::string TraceJson(const std::vector<PlacedSpan>& spans) {
  std::vector<const PlacedSpan*> sorted;
  for (const PlacedSpan& span : spans) sorted.push_back(&span);
  std::stable_sort(sorted.begin(), sorted.end(), [](const PlacedSpan* a, const PlacedSpan* b) {
    return std::tuple(a->span.start_ns(), a->span.kind()) <
           std::tuple(b->span.start_ns(), b->span.kind());
  });
  Writer writer(sorted.empty() ? 0 : sorted.front()->span.start_ns());
  for (const PlacedSpan* span : sorted) writer.AddSpan(*span);
  return writer.Text();
}

}  // namespace psgd
