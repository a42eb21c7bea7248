#include "experiment/record/event_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "common/files.h"

namespace psgd {
namespace {

constexpr uint32_t kPolynomial = 0x82F63B78;  // of CRC-32C, lowest bit first
constexpr uint32_t kMask = 0xA282EAD8;
constexpr int kStrings = 7;  // DT_STRING

constexpr std::array<uint32_t, 256> MakeTable() {
  std::array<uint32_t, 256> table{};
  for (uint32_t byte = 0; byte < 256; ++byte) {
    uint32_t crc = byte;
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ ((crc & 1) != 0 ? kPolynomial : 0);
    table[byte] = crc;
  }
  return table;
}
constexpr std::array<uint32_t, 256> kTable = MakeTable();

template <typename Word>
void AppendLittleEndian(Word word, std::string* bytes) {
  for (size_t i = 0; i < sizeof word; ++i) bytes->push_back(static_cast<char>(word >> (8 * i)));
}

double Now() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

}  // namespace

uint32_t Crc32c(absl::string_view bytes) {
  uint32_t crc = ~uint32_t{0};
  for (const char c : bytes) crc = (crc >> 8) ^ kTable[(crc ^ static_cast<uint8_t>(c)) & 0xFF];
  return ~crc;
}

uint32_t MaskedCrc32c(absl::string_view bytes) {
  const uint32_t crc = Crc32c(bytes);
  return ((crc >> 15) | (crc << 17)) + kMask;
}

absl::StatusOr<std::unique_ptr<EventFile>> EventFile::Create(const std::string& folder) {
  char host[256] = "host";
  (void)gethostname(host, sizeof host - 1);
  const auto now = static_cast<int64_t>(Now());
  std::string path;
  int fd = -1;
  // TensorBoard reads the files in the order of their names. `part` distinguishes files of one
  // second.
  for (int part = 0; fd < 0 && part < 1000; ++part) {
    path = absl::StrCat(folder, "/events.out.tfevents.", now, ".", host, ".", part);
    fd = open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_APPEND | O_CLOEXEC, 0666);
    if (fd < 0 && errno != EEXIST) break;
  }
  if (fd < 0) return FileError("make", path, errno);
  std::unique_ptr<EventFile> file(new EventFile(path, fd));
  tensorboard::Event first;
  first.set_file_version("brain.Event:2");
  PSGD_RETURN_IF_ERROR(file->Write(std::move(first)));
  return file;
}

EventFile::~EventFile() { close(fd_); }

absl::Status EventFile::Write(tensorboard::Event event) {
  event.set_wall_time(Now());
  const std::string data = event.SerializeAsString();
  std::string record;
  AppendLittleEndian(static_cast<uint64_t>(data.size()), &record);
  AppendLittleEndian(MaskedCrc32c(record), &record);
  record += data;
  AppendLittleEndian(MaskedCrc32c(data), &record);
  size_t done = 0;
  while (done < record.size()) {
    const ssize_t put = write(fd_, record.data() + done, record.size() - done);
    if (put < 0 && errno == EINTR) continue;
    if (put < 0) return FileError("write", path_, errno);
    done += static_cast<size_t>(put);
  }
  return absl::OkStatus();
}

absl::Status EventFile::Scalars(uint64_t step,
                                const std::vector<std::pair<std::string, double>>& values) {
  tensorboard::Event event;
  event.set_step(static_cast<int64_t>(step));
  for (const auto& [tag, value] : values) {
    if (!std::isfinite(value)) continue;
    tensorboard::Value* out = event.mutable_summary()->add_value();
    out->set_tag(tag);
    out->set_simple_value(static_cast<float>(value));
  }
  return event.has_summary() ? Write(std::move(event)) : absl::OkStatus();
}

absl::Status EventFile::Histogram(uint64_t step, const std::string& tag,
                                  const CountHistogram& counts) {
  if (counts.count() == 0) return absl::OkStatus();
  tensorboard::Event event;
  event.set_step(static_cast<int64_t>(step));
  tensorboard::Value* out = event.mutable_summary()->add_value();
  out->set_tag(tag);
  tensorboard::Histogram* histogram = out->mutable_histo();
  double squares = 0;
  bool first = true;
  for (size_t value = 0; value < counts.counts().size(); ++value) {
    const auto times = static_cast<double>(counts.counts()[value]);
    const auto at = static_cast<double>(value);
    if (times > 0 && std::exchange(first, false)) histogram->set_min(at);
    squares += times * at * at;
    histogram->add_bucket_limit(at + 0.5);
    histogram->add_bucket(times);
  }
  histogram->set_max(static_cast<double>(counts.max()));
  histogram->set_num(static_cast<double>(counts.count()));
  histogram->set_sum(counts.Mean() * static_cast<double>(counts.count()));
  histogram->set_sum_squares(squares);
  return Write(std::move(event));
}

absl::Status EventFile::Text(uint64_t step, const std::string& tag, const std::string& text) {
  tensorboard::Event event;
  event.set_step(static_cast<int64_t>(step));
  tensorboard::Value* out = event.mutable_summary()->add_value();
  out->set_tag(tag);
  out->mutable_metadata()->mutable_plugin_data()->set_plugin_name("text");
  out->mutable_tensor()->set_dtype(kStrings);
  out->mutable_tensor()->mutable_tensor_shape()->add_dim()->set_size(1);
  out->mutable_tensor()->add_string_val(text);
  return Write(std::move(event));
}

}  // namespace psgd
