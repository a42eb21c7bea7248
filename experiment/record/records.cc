#include "experiment/record/records.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <fstream>
#include <string_view>

#include "common/files.h"
#include "experiment/record/run_files.h"

namespace psgd {
namespace {

// The end of the last whole line; -1 with errno set if the file cannot be read.
int64_t EndOfLines(int fd) {
  struct stat info {};
  if (fstat(fd, &info) != 0) return -1;
  char block[4096];
  int64_t end = info.st_size;
  while (end > 0) {
    const int64_t start =
        end > static_cast<int64_t>(sizeof block) ? end - static_cast<int64_t>(sizeof block) : 0;
    const ssize_t n = pread(fd, block, static_cast<size_t>(end - start), start);
    if (n < 0) return -1;
    for (int64_t i = n; i > 0; --i) {
      if (block[i - 1] == '\n') return start + i;
    }
    end = start;
  }
  return 0;
}

}  // namespace

absl::StatusOr<std::unique_ptr<MetricsWriter>> MetricsWriter::Open(const std::string& path) {
  const int fd = open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
  if (fd < 0) return FileError("open", path, errno);
  const int64_t size = EndOfLines(fd);
  // A device or pipe has no lines to keep and cannot be cut.
  const bool cut = size >= 0 && (ftruncate(fd, size) == 0 || errno == EINVAL);
  if (!cut || (lseek(fd, size, SEEK_SET) < 0 && errno != ESPIPE)) {
    const int error = errno;
    close(fd);
    return FileError("append to", path, error);
  }
  return std::unique_ptr<MetricsWriter>(new MetricsWriter(path, fd, size));
}

MetricsWriter::~MetricsWriter() { close(fd_); }

absl::Status MetricsWriter::Write(absl::string_view kind, double seconds, const Record& fields) {
  Record record;
  record["kind"] = std::string(kind);
  record["seconds"] = seconds;
  if (fields.is_object()) record.update(fields);
  const std::string line =
      record.dump(-1, ' ', /*ensure_ascii=*/false, Record::error_handler_t::replace) + "\n";

  std::lock_guard lock(mutex_);
  size_t done = 0;
  while (done < line.size()) {
    const ssize_t n = write(fd_, line.data() + done, line.size() - done);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) {
      const int error = errno;
      // Removes the partial line, so that the next record starts on a new line.
      if (done > 0 && ftruncate(fd_, size_) == 0) lseek(fd_, size_, SEEK_SET);
      return lost_++ == 0 ? FileError("write", path_, error) : absl::OkStatus();
    }
    done += static_cast<size_t>(n);
  }
  size_ += static_cast<int64_t>(line.size());
  return absl::OkStatus();
}

uint64_t MetricsWriter::lost() const {
  std::lock_guard lock(mutex_);
  return lost_;
}

absl::StatusOr<std::vector<Record>> ReadMetrics(const std::string& path) {
  PSGD_RETURN_IF_ERROR(CheckRegularFile(path));
  std::ifstream file(path, std::ios::binary);
  if (!file) return FileError("open", path, errno);
  std::vector<Record> records;
  std::string line;
  for (size_t number = 1; std::getline(file, line); ++number) {
    if (file.eof()) break;  // no line end: a partial or torn line
    Record record = Record::parse(line, nullptr, /*allow_exceptions=*/false);
    if (!record.is_object()) {
      return DataLossError(path, ":", number, ": not a JSON object");
    }
    records.push_back(std::move(record));
  }
  if (file.bad()) return FileError("read", path, errno);
  return records;
}

double LastSeconds(const std::string& path) {
  constexpr int64_t kTail = 8 << 20;  // records are far smaller
  std::ifstream file(path, std::ios::binary | std::ios::ate);
  if (!file || !CheckRegularFile(path).ok()) return 0;
  const int64_t size = file.tellg();
  std::string tail(static_cast<size_t>(std::min(size, kTail)), '\0');
  file.seekg(size - static_cast<int64_t>(tail.size()));
  if (!file.read(tail.data(), static_cast<std::streamsize>(tail.size()))) return 0;
  for (size_t end = tail.rfind('\n'); end != std::string::npos && end > 0;) {
    const size_t before = tail.rfind('\n', end - 1);
    const size_t begin = before == std::string::npos ? 0 : before + 1;
    const Record record =
        Record::parse(tail.substr(begin, end - begin), nullptr, /*allow_exceptions=*/false);
    if (record.is_object() && record.contains("seconds")) return NumberIn(record, "seconds");
    end = before;
  }
  return 0;
}

double TotalSeconds(const std::string& path) {
  if (!CheckRegularFile(path).ok()) return 0;
  std::ifstream file(path, std::ios::binary);
  std::string line;
  double before = 0, last = 0;
  while (std::getline(file, line) && !file.eof()) {
    const double seconds = SecondsIn(line);
    if (seconds < 0) continue;
    if (seconds < last) before += last;
    last = seconds;
  }
  return before + last;
}

double NumberIn(const Record& record, const char* key) {
  const auto found = record.find(key);
  return found != record.end() && found->is_number() ? found->get<double>() : 0;
}

std::map<std::string, double> MeasuresIn(const Record& evaluation) {
  std::map<std::string, double> measures;
  const auto found = evaluation.find("measures");
  if (found == evaluation.end() || !found->is_object()) return measures;
  for (const auto& [name, value] : found->items()) {
    if (value.is_number()) measures[name] = value.get<double>();
  }
  return measures;
}

double SecondsIn(const std::string& line) {
  constexpr std::string_view kSeconds = "\"seconds\":";
  const size_t at = line.find(kSeconds);
  return at == std::string::npos ? -1 : std::strtod(line.c_str() + at + kSeconds.size(), nullptr);
}

}  // namespace psgd
