// Figures as people read them.
#pragma once

#include <string>
#include <vector>

namespace psgd {

std::string ReadableCount(double count);          // "843", "5.12 k", "60.0 k", "1.20 M"
std::string ReadableTime(double seconds);         // "0.8 s", "43 s", "4:05", "2:03:20"
std::string ReadableEpoch(double epoch);          // "3", or "2.82" within one
std::string ReadablePercent(double share);        // "91.20 %"
std::string ShortPercent(double share);           // "91.2 %"
std::string NameOrDash(const std::string& name);  // "-": it has none
std::string WholePercent(double share);           // "91 %"
// What `dense` bytes became: "52x"; empty when nothing was sent.
std::string ReadableRatio(double dense, double sent);

// Rows with their columns aligned: numbers to the right.
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
