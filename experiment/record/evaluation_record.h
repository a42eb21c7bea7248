// An evaluation as files and people have it.
#pragma once

#include <map>
#include <string>

#include "experiment/record/records.h"
#include "proto/control.pb.h"

namespace psgd {

// What metrics.jsonl and the JSON of ps-ctl have of it, and back; what is missing is zero.
Record EvaluationRecord(const EvalResult& result);
EvalResult EvaluationOf(const Record& record);

// The measures beside accuracy and loss, by name.
std::map<std::string, double> MeasuresOf(const EvalResult& result);
// ", hit_ratio_10 0.6123, ndcg_10 0.3541"; empty where there are none.
std::string MeasuresText(const EvalResult& result);

}  // namespace psgd
