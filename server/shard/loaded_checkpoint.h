// A checkpoint in memory, by parameter, so that it fits any number of shards.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/string_view.h"
#include "common/bytes.h"
#include "common/status.h"
#include "proto/checkpoint.pb.h"
#include "server/shard/snapshot.h"

namespace psgd {

// A range of one parameter, cut out of a checkpoint. The bytes share the checkpoint's memory.
struct SliceContents {
  uint64_t version = 0;  // the largest of the stored slices that it overlaps
  uint64_t steps = 0;    // likewise
  Bytes weights;
  std::vector<std::pair<std::string, Bytes>> states;  // by name
  // By worker, as in compression/saved_state.h. Workers without a residual are left out.
  std::map<uint32_t, Bytes> residuals;
};

// Immutable and thread-safe once loaded.
class LoadedCheckpoint {
 public:
  // Checks that `shards` hold exactly what the manifest says, and joins the slices.
  static absl::StatusOr<LoadedCheckpoint> Assemble(CheckpointManifest manifest,
                                                   const std::vector<ShardSnapshot>& shards);

  const CheckpointManifest& manifest() const { return manifest_; }
  // For people: damaged checkpoints that were skipped, and their damage.
  const std::vector<std::string>& notes() const { return notes_; }
  void AddNote(std::string note) { notes_.push_back(std::move(note)); }

  // All weights of a parameter; empty: there is no such parameter.
  Bytes Weights(absl::string_view parameter) const;
  // A state of all weights of a parameter; empty: there is no such parameter or state.
  Bytes State(absl::string_view parameter, absl::string_view state) const;
  // An error: the checkpoint has no such parameter, or the parameter is shorter.
  absl::StatusOr<SliceContents> Extract(absl::string_view parameter, uint64_t offset,
                                        uint64_t count) const;
  // What the programs of a run with so many workers begin with: worker -> part id -> part. A worker
  // whose number the checkpoint does not have begins with what worker 0 kept.
  std::map<uint32_t, std::map<uint32_t, Bytes>> ProgramStates(uint32_t workers) const;

 private:
  struct Range {
    uint64_t offset;
    uint64_t count;
    uint64_t version;
    uint64_t steps;
  };
  struct Residual {
    uint64_t offset;
    uint64_t count;
    Bytes values;  // as compression/saved_state.h
  };
  struct Tensor {
    uint64_t elements = 0;
    Bytes weights;
    std::vector<std::pair<std::string, Bytes>> states;
    std::map<uint32_t, std::vector<Residual>> residuals;  // by worker
    std::vector<Range> slices;                            // by offset
  };

  absl::Status AddTensor(const ParameterSpec& parameter, std::vector<const SliceSnapshot*> slices);
  absl::Status AddResidual(uint32_t worker, const SliceSnapshot& slice, const Bytes& values);
  static Bytes CutResidual(const std::vector<Residual>& residuals, uint64_t offset, uint64_t count);

  CheckpointManifest manifest_;
  std::vector<std::string> notes_;
  std::map<std::string, Tensor, std::less<>> tensors_;
  std::map<uint32_t, std::map<uint32_t, Bytes>> programs_;  // by worker, then by part id
};

}  // namespace psgd
