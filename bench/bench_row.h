// One line of a benchmark's result.
#pragma once

#include <map>
#include <string>

namespace psgd {

struct BenchRow {
  std::string bench;
  std::string name;       // printed as "case"
  double gbps = 0;        // 10^9 bytes a second of the processed data
  double limit_gbps = 0;  // the best that this machine reaches, measured in the same run
  double ratio = 0;       // gbps / limit_gbps
  bool verified = false;  // the result was checked before it was timed
  std::map<std::string, std::string> settings;  // what the numbers depend on besides the case
  std::map<std::string, double> extra;
};

// Returns one JSON object, without a line end.
std::string ToJsonLine(const BenchRow& row);

}  // namespace psgd
