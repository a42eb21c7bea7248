// A recorded step: CUDA graphs of kernels, and between them calls that each replay makes anew.
//
// CUDA does not say clearly whether the launch of a graph takes back the events that lie in the
// graph. If it does not, who asks right after the launch sees the event of the step before, and
// takes gradients that are not made yet. So all events that others wait for lie between graphs,
// where the ordinary rules hold.
#pragma once

#include <functional>
#include <vector>

#include "engine/cudnn/status.h"
#include "engine/runtime/backend.h"

namespace psgd::cudnn {

// Not thread-safe.
class RecordedStep : public Recording {
 public:
  RecordedStep(int device, cudaStream_t stream) : device_(device), stream_(stream) {}
  ~RecordedStep() override;
  RecordedStep(const RecordedStep&) = delete;
  RecordedStep& operator=(const RecordedStep&) = delete;

  // From now on, launches on the stream are recorded.
  absl::Status Begin();
  // Each replay makes the call after the launches recorded so far, or a little later: graphs are
  // cut only after calls that together have at least kLeastWeight.
  absl::Status Between(std::function<absl::Status()> call, size_t weight);
  // Ends the recording. REQUIRES: called after Begin, also if what was to be recorded failed.
  absl::Status End();

  absl::Status Replay() override;

  // The bytes of gradients that leave together. A cut costs the host a few microseconds.
  static constexpr size_t kLeastWeight = 4 << 20;

 private:
  struct Piece {
    cudaGraphExec_t graph;                             // null: nothing was launched
    std::vector<std::function<absl::Status()>> calls;  // after the graph
  };
  // Ends the graph that is being recorded, and makes a piece of it.
  absl::Status Cut();

  const int device_;
  const cudaStream_t stream_;
  std::vector<Piece> pieces_;
  std::vector<std::function<absl::Status()>> calls_;  // since the last cut
  size_t weight_ = 0;                                 // of calls_
  bool recording_ = false;
};

}  // namespace psgd::cudnn
