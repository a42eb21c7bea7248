// Formats figures for people.
#pragma once

#include <string>
#include <vector>

namespace psgd {

std::string ReadableCount(double count);          // "843", "5.12 k", "60.0 k", "1.20 M"
std::string ReadableTime(double seconds);         // "0.8 s", "43 s", "4:05", "2:03:20"
std::string ReadableEpoch(double epoch);          // "3", or "2.82" within an epoch
std::string ReadableLoss(double loss);            // "0.5213"; "3.1e+58" of a run that diverged
std::string ReadablePercent(double share);        // "91.20 %"
std::string ShortPercent(double share);           // "91.2 %"
std::string NameOrDash(const std::string& name);  // "-" if there is no name
std::string WholePercent(double share);           // "91 %"
// The ratio of `dense` to `sent` bytes: "52x"; empty if nothing was sent.
std::string ReadableRatio(double dense, double sent);

// A table with aligned columns; numbers are right-aligned.
class TextTable {
 public:
  explicit TextTable(std::vector<std::string> header) { rows_.push_back(std::move(header)); }
  void Add(std::vector<std::string> row) { rows_.push_back(std::move(row)); }
  bool empty() const { return rows_.size() == 1; }
  std::string Text() const;

 private:
  std::vector<std::vector<std::string>> rows_;
};

}  // namespace psgd
