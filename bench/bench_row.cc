#include "bench/bench_row.h"

#include <nlohmann/json.hpp>

namespace psgd {

std::string ToJsonLine(const BenchRow& row) {
  nlohmann::ordered_json json = {
      {"bench", row.bench},           {"case", row.name},   {"gbps", row.gbps},
      {"limit_gbps", row.limit_gbps}, {"ratio", row.ratio}, {"verified", row.verified},
  };
  for (const auto& [name, value] : row.settings) json[name] = value;
  for (const auto& [name, value] : row.extra) json[name] = value;
  return json.dump();
}

}  // namespace psgd
