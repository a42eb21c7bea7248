#include "engine/runtime/plugin.h"

#include <vector>

#include "absl/strings/str_join.h"
#include "common/plugin.h"
#include "common/suggest.h"
#include "engine/reference/backend.h"

namespace psgd {
namespace {

constexpr const char* kPlugins[] = {"cudnn", "onednn"};

PluginAdvice AdviceFor(const std::string& name) {
  if (name == "cudnn") {
    return {.if_missing = "build it, or use the reference backend",
            .if_it_does_not_load =
                "`source activate` of the bundle lets it find CUDA's libraries in CUDA_HOME, "
                "/usr/local/cuda or Python's nvidia wheels; else install what it needs, or use the "
                "onednn or reference backend"};
  }
  return {.if_missing =
              "build it, or in place of this bundle make one with scripts/bundle.sh "
              "--with-onednn, or use the reference backend",
          .if_it_does_not_load = "install what it needs, or use the reference backend"};
}

}  // namespace

absl::StatusOr<std::unique_ptr<Backend>> LoadBackend(const std::string& name,
                                                     const std::string& plugin_dir,
                                                     const BackendOptions& options) {
  if (name == "reference") {
    if (options.precision == Precision::kFp32) return MakeReferenceBackend<float>(options);
    return absl::InvalidArgumentError("the reference backend computes in fp32 alone");
  }
  std::vector<std::string> known = {"reference"};
  for (const char* plugin : kPlugins) {
    known.push_back(plugin);
    if (name != plugin) continue;
    PSGD_ASSIGN_OR_RETURN(void* const found,
                          FindInPlugin(name, plugin_dir, "psgd_make_backend", AdviceFor(name)));
    const auto make = reinterpret_cast<MakeBackendFunction>(found);
    absl::StatusOr<std::unique_ptr<Backend>> backend;
    if (!make(PluginInterface(), options, &backend)) return PluginOfOtherBuild(name);
    return backend;
  }
  return InvalidArgumentError("no backend named \"", name, "\"", Suggest(name, known),
                              " (there are: ", absl::StrJoin(known, ", "), ")");
}

absl::Status CheckPrecision(const std::string& name, const std::string& plugin_dir,
                            Precision precision) {
  BackendOptions options;
  options.precision = precision;
  return LoadBackend(name, plugin_dir, options).status();
}

}  // namespace psgd
