#include "common/log.h"

#include <spdlog/sinks/basic_file_sink.h>
#include <spdlog/sinks/null_sink.h>
#include <spdlog/sinks/stdout_color_sinks.h>
#include <spdlog/spdlog.h>

#include <vector>

namespace psgd {

absl::StatusOr<Log> MakeLog(const LogOptions& options) {
  std::vector<spdlog::sink_ptr> sinks;
  if (options.to_stderr) {
    sinks.push_back(std::make_shared<spdlog::sinks::stderr_color_sink_mt>());
  }
  if (!options.file.empty()) {
    try {
      sinks.push_back(std::make_shared<spdlog::sinks::basic_file_sink_mt>(options.file));
    } catch (const spdlog::spdlog_ex& error) {
      return UnavailableError("cannot write the log file ", options.file, ": ", error.what(),
                              "; check that its folder exists and is writable");
    }
  }
  auto log = std::make_shared<spdlog::logger>(options.name, sinks.begin(), sinks.end());
  const auto level = spdlog::level::from_str(options.level);
  if (level == spdlog::level::off && options.level != "off") {
    return InvalidArgumentError("unknown log level \"", options.level,
                                "\"; use trace, debug, info, warn, error or off");
  }
  log->set_level(level);
  log->set_pattern("%Y-%m-%dT%H:%M:%S.%e %^%l%$ [%n] %v");
  log->flush_on(spdlog::level::info);
  return log;
}

Log NullLog() {
  return std::make_shared<spdlog::logger>("null", std::make_shared<spdlog::sinks::null_sink_mt>());
}

}  // namespace psgd
