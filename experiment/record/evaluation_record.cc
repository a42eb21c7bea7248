#include "experiment/record/evaluation_record.h"

namespace psgd {

Record EvaluationRecord(const EvalResult& result) {
  Record record{{"epoch", result.epoch()},     {"clock", result.clock()},
                {"accuracy", Record()},        {"loss", result.loss()},
                {"samples", result.samples()}, {"took", result.seconds()}};
  if (result.has_accuracy()) record["accuracy"] = result.accuracy();
  if (result.measures_size() > 0) record["measures"] = MeasuresOf(result);
  return record;
}

EvalResult EvaluationOf(const Record& record) {
  EvalResult result;
  result.set_epoch(NumberIn(record, "epoch"));
  result.set_clock(static_cast<uint64_t>(NumberIn(record, "clock")));
  if (const auto accuracy = record.find("accuracy");
      accuracy != record.end() && accuracy->is_number()) {
    result.set_accuracy(accuracy->get<double>());
  }
  result.set_loss(NumberIn(record, "loss"));
  result.set_samples(static_cast<uint64_t>(NumberIn(record, "samples")));
  result.set_seconds(NumberIn(record, "took"));
  for (const auto& [name, value] : MeasuresIn(record)) (*result.mutable_measures())[name] = value;
  return result;
}

std::map<std::string, double> MeasuresOf(const EvalResult& result) {
  return {result.measures().begin(), result.measures().end()};
}

Score ScoreOf(const EvalResult& result) {
  return ScoreOf(result.has_accuracy() ? std::optional(result.accuracy()) : std::nullopt,
                 MeasuresOf(result));
}

}  // namespace psgd
