// An evaluation in the form of files and of people.
#pragma once

#include <map>
#include <string>

#include "experiment/record/metric.h"
#include "experiment/record/records.h"
#include "proto/control.pb.h"

namespace psgd {

// Converts to the record in metrics.jsonl and in ps-ctl's JSON, and back. Missing numbers become
// zero.
Record EvaluationRecord(const EvalResult& result);
EvalResult EvaluationOf(const Record& record);

// The measures other than accuracy and loss, by name.
std::map<std::string, double> MeasuresOf(const EvalResult& result);
Score ScoreOf(const EvalResult& result);

}  // namespace psgd
