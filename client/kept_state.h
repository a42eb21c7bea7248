// A program's own state, which checkpoints keep: bytes that only it understands.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "common/bytes.h"
#include "common/status.h"

namespace psgd {

// Not thread-safe.
class KeptState {
 public:
  // The program has a state that checkpoints keep.
  void Keep() { keeps_ = true; }
  bool keeps() const { return keeps_; }
  // WantsState: the program has a state and did not give it yet.
  absl::Status Ask();
  // The program gives what Ask wanted.
  absl::Status Give(ByteSpan state);
  // What the program gave since the last call.
  std::optional<Bytes> Take() { return std::exchange(given_, std::nullopt); }

  // The state in the checkpoint from which the run goes on.
  void Load(const std::map<uint32_t, Bytes>& saved, const std::string& run, uint32_t worker);
  void ForgetLoaded() { loaded_ = std::nullopt; }
  // Null: there is none. DATA_LOSS: the checkpoint has only a part.
  absl::StatusOr<const std::vector<std::byte>*> loaded() const;

 private:
  bool keeps_ = false;
  bool wanted_ = false;
  std::optional<Bytes> given_;
  absl::StatusOr<std::optional<std::vector<std::byte>>> loaded_ = std::nullopt;
};

}  // namespace psgd
