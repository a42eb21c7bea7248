#include "engine/cudnn/recorded_step.h"

#include <utility>

#include "engine/cudnn/range.h"

namespace psgd::cudnn {

RecordedStep::~RecordedStep() {
  cudaSetDevice(device_);
  cudaStreamSynchronize(stream_);
  for (const Piece& piece : pieces_) {
    if (piece.graph != nullptr) cudaGraphExecDestroy(piece.graph);
  }
}

absl::Status RecordedStep::Begin() {
  // Thread-local: calls of other replicas in this process do not end the capture.
  PSGD_CUDA(cudaStreamBeginCapture(stream_, cudaStreamCaptureModeThreadLocal));
  recording_ = true;
  return absl::OkStatus();
}

absl::Status RecordedStep::Between(std::function<absl::Status()> call, size_t weight) {
  calls_.push_back(std::move(call));
  weight_ += weight;
  if (weight_ < kLeastWeight) return absl::OkStatus();
  PSGD_RETURN_IF_ERROR(Cut());
  return Begin();
}

absl::Status RecordedStep::End() {
  // A failed cut has ended the recording already.
  const absl::Status ended = recording_ ? Cut() : absl::OkStatus();
  cudaGetLastError();  // clears the error, so that later kernel launches do not report it
  return ended;
}

absl::Status RecordedStep::Cut() {
  recording_ = false;
  cudaGraph_t graph = nullptr;
  absl::Status status = CheckCall(cudaStreamEndCapture(stream_, &graph), "cudaStreamEndCapture");
  size_t launches = 0;
  if (status.ok()) {
    status = CheckCall(cudaGraphGetNodes(graph, nullptr, &launches), "cudaGraphGetNodes");
  }
  cudaGraphExec_t made = nullptr;
  if (status.ok() && launches > 0) {
    status = CheckCall(cudaGraphInstantiate(&made, graph, 0), "cudaGraphInstantiate");
  }
  if (graph != nullptr) cudaGraphDestroy(graph);
  PSGD_RETURN_IF_ERROR(status);
  pieces_.push_back({made, std::exchange(calls_, {})});
  weight_ = 0;
  return absl::OkStatus();
}

absl::Status RecordedStep::Replay() {
  const Range range("recorded step");
  for (const Piece& piece : pieces_) {
    if (piece.graph != nullptr) PSGD_CUDA(cudaGraphLaunch(piece.graph, stream_));
    for (const auto& call : piece.calls) PSGD_RETURN_IF_ERROR(call());
  }
  return absl::OkStatus();
}

}  // namespace psgd::cudnn
