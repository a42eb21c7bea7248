#include "server/coordinator/report_histograms.h"

#include <algorithm>

#include "common/latency.h"

namespace psgd {
namespace {

// A hostile histogram must not size an allocation.
void AddCounts(const google::protobuf::RepeatedField<uint64_t>& counts, size_t most_bins,
               CountHistogram* total) {
  const int bins = std::min(counts.size(), static_cast<int>(most_bins));
  for (int bin = 0; bin < bins; ++bin) total->Add(bin, counts[bin]);
}

}  // namespace

void ReportHistograms::Add(const WorkerReport& report) {
  AddCounts(report.pull_staleness(), CountHistogram::kLargest + 1, &pull_staleness);
  AddCounts(report.push_latency(), kLatencyBins, &push_latency);
  AddCounts(report.pull_latency(), kLatencyBins, &pull_latency);
}

}  // namespace psgd
