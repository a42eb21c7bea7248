#include "experiment/sweep/sweep_json.h"

namespace psgd {
namespace {

Record AxesJson(const AxisValues& axes) {
  Record json = Record::object();
  for (const auto& [axis, value] : axes) json[axis] = value;
  return json;
}

Record StatisticJson(const Statistic& statistic) {
  if (statistic.count == 0) return nullptr;
  return {{"mean", statistic.mean}, {"spread", statistic.spread}, {"seeds", statistic.count}};
}

Record OrNull(const std::optional<double>& value) {
  return value ? Record(*value) : Record(nullptr);
}

}  // namespace

Record SweepJson(const ReportRuns& report, const std::vector<ReportGroup>& groups,
                 const std::string& dir) {
  Record json{{"name", report.title}, {"question", report.question}, {"dir", dir}};
  json["configurations"] = Record::array();
  for (const ReportGroup& group : groups) {
    json["configurations"].push_back(
        {{"label", group.label},
         {"axes", AxesJson(group.axes)},
         {"twin", group.twin},
         {"runs", group.runs.size()},
         {"done", group.done},
         {report.metric.name, StatisticJson(group.score)},
         {"against_twin", StatisticJson(group.against_twin)},
         {"loss", StatisticJson(group.loss)},
         {"bytes_pushed", StatisticJson(group.bytes_pushed)},
         {"bytes_pulled", StatisticJson(group.bytes_pulled)},
         {"samples_per_second", StatisticJson(group.samples_per_second)},
         {"seconds", StatisticJson(group.seconds)}});
  }
  json["runs"] = Record::array();
  for (const ReportRun& run : report.runs) {
    json["runs"].push_back(
        {{"id", run.id},
         {"label", run.label},
         {"seed", run.seed},
         {"twin", run.twin},
         {"status", NameOf(run.status)},
         {"detail", run.detail},
         {report.metric.name, run.score.metric != nullptr ? Record(run.score.value) : Record()},
         {"loss", OrNull(run.loss)},
         {"epochs", run.epochs},
         {"seconds", run.seconds},
         {"problems", run.data.problems}});
    if (run.data.summary) {
      json["runs"].back()["steps"] = run.data.summary->steps;
      json["runs"].back()["bytes_pushed"] = run.data.summary->bytes_pushed;
      json["runs"].back()["bytes_pulled"] = run.data.summary->bytes_pulled;
    }
  }
  return json;
}

Record PlanJson(const std::string& name, const RunPlan& plan, const Record& estimate) {
  Record json{
      {"name", name}, {"notes", plan.notes}, {"estimate", estimate}, {"runs", Record::array()}};
  for (const PlannedRun& run : plan.runs) {
    json["runs"].push_back({{"id", run.id},
                            {"label", run.label},
                            {"axes", AxesJson(run.axes)},
                            {"seed", run.config.seed()},
                            {"twin", run.twin},
                            {"twin_id", run.twin_id}});
  }
  return json;
}

}  // namespace psgd
