// Prints the first losses of training the network of an ONNX file, for make_corpus.py.
#include <cstdio>
#include <cstdlib>

#include "tests/conformance/engine/onnx_torch.h"
#include "tests/folders.h"

namespace psgd {
namespace {

int PrintLosses(int argc, char** argv) {
  if (argc < 8) {
    std::fprintf(
        stderr,
        "usage: %s FILE.onnx BACKEND BATCH SIZE PIXELS RATE STEPS [VOCABULARY [FROZEN ...]]\n"
        "With a vocabulary SIZE is the tokens of a sequence.\n",
        argv[0]);
    return 2;
  }
  const int batch = std::atoi(argv[3]), size = std::atoi(argv[4]), steps = std::atoi(argv[7]);
  const bool pixels = std::atoi(argv[5]) != 0;
  const auto rate = static_cast<float>(std::atof(argv[6]));
  const testing::Problem problem = argc > 8 ? testing::TorchTokens(batch, size, std::atoi(argv[8]))
                                            : testing::TorchImages(batch, size, 10, pixels);
  ModelConfig config;
  config.set_onnx(argv[1]);
  for (int i = 9; i < argc; ++i) config.add_frozen(argv[i]);
  const auto network =
      testing::NetworkOfFile(config, problem, {.backend = argv[2], .plugin_dir = PluginDir()});
  if (!network.ok()) {
    std::fprintf(stderr, "%s\n", std::string(network.status().message()).c_str());
    return 1;
  }
  for (int step = 0; step < steps; ++step) {
    std::printf("%.9g\n", testing::Descend(network->get(), problem, step, rate));
  }
  return 0;
}

}  // namespace
}  // namespace psgd

int main(int argc, char** argv) { return psgd::PrintLosses(argc, argv); }
