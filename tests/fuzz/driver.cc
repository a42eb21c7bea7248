// Runs a fuzz target without libFuzzer: on every given file, then on mutations of the files. The
// seed determines the mutations. The flags have the names of libFuzzer's flags.
//
//   codec_fuzz --codec=topk -runs=20000 -seed=1 tests/fuzz/corpus/codec/topk
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "common/philox.h"
#include "tests/fuzz/fuzz.h"

namespace psgd::fuzz {
namespace {

using Input = std::vector<uint8_t>;

constexpr size_t kLongest = 1 << 16;
// No input may take this long, or this much memory, whatever sizes it claims.
constexpr unsigned kMostSeconds = 60;
constexpr long kMostKilobytes = 2l << 20;

void Run(const Input& input) {
  alarm(kMostSeconds);
  LLVMFuzzerTestOneInput(input.data(), input.size());
}

void CheckMemory() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  Require(usage.ru_maxrss < kMostKilobytes, "it took more than 2 GiB of memory");
}

Input ReadFile(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

// Files of a folder are sorted by name, so that a seed means the same everywhere.
std::vector<Input> ReadCorpus(const std::string& where) {
  if (!std::filesystem::is_directory(where)) return {ReadFile(where)};
  std::vector<std::filesystem::path> paths;
  for (const auto& entry : std::filesystem::directory_iterator(where))
    paths.push_back(entry.path());
  std::sort(paths.begin(), paths.end());
  std::vector<Input> inputs;
  for (const auto& path : paths) inputs.push_back(ReadFile(path));
  return inputs;
}

// Numbers that break lengths, indices and floats.
constexpr uint32_t kOdd[] = {0,          1,          0x7F,       0x80,       0xFF,
                             0xFFFF,     0x10000,    0x7FFFFFFF, 0x80000000, 0xFFFFFFFF,
                             0x3F800000, 0x7F800000, 0x7FC00000, 0x00000001, 0xFF7FFFFF};

void MutateOnce(const std::vector<Input>& corpus, bool keep_length, RandomStream* random,
                Input* input) {
  const auto below = [&](size_t limit) {
    return static_cast<size_t>(random->NextBelow(static_cast<uint32_t>(limit)));
  };
  const size_t at = below(input->size() + 1);
  const size_t rest = input->size() - at;
  switch (random->NextBelow(keep_length ? 3 : 7)) {
    case 0:
      if (rest > 0) (*input)[at] ^= static_cast<uint8_t>(1u << random->NextBelow(8));
      break;
    case 1:
      if (rest > 0) (*input)[at] = static_cast<uint8_t>(random->NextBits());
      break;
    case 2: {
      const uint32_t odd = kOdd[below(std::size(kOdd))];
      std::memcpy(input->data() + at, &odd, std::min<size_t>(rest, sizeof odd));
      break;
    }
    case 3:
      input->erase(input->begin() + at,
                   input->begin() + at + below(std::min<size_t>(rest, 64) + 1));
      break;
    case 4:
      input->insert(input->begin() + at, below(32), static_cast<uint8_t>(random->NextBits()));
      break;
    case 5: {
      const size_t from = below(input->size() + 1);
      const size_t count = below(std::min<size_t>(input->size() - from, 64) + 1);
      const Input piece(input->begin() + from, input->begin() + from + count);
      input->insert(input->begin() + at, piece.begin(), piece.end());
      break;
    }
    default: {
      const Input& other = corpus[below(corpus.size())];
      const size_t from = std::min(at, other.size());
      input->resize(at);
      input->insert(input->end(), other.begin() + from, other.end());
    }
  }
  if (input->size() > kLongest) input->resize(kLongest);
}

int Main(int argc, char** argv) {
  LLVMFuzzerInitialize(&argc, &argv);
  uint64_t runs = 0, seed = 1;
  std::vector<Input> corpus;
  for (int i = 1; i < argc; ++i) {
    const std::string argument = argv[i];
    if (argument.rfind("-runs=", 0) == 0) {
      runs = std::stoull(argument.substr(6));
    } else if (argument.rfind("-seed=", 0) == 0) {
      seed = std::stoull(argument.substr(6));
    } else if (argument.rfind("-", 0) != 0) {
      const std::vector<Input> inputs = ReadCorpus(argument);
      corpus.insert(corpus.end(), inputs.begin(), inputs.end());
    }
  }
  Require(!corpus.empty(), "name files or folders with inputs to begin with");
  for (const Input& input : corpus) Run(input);
  for (uint64_t run = 0; run < runs; ++run) {
    RandomStream random(MakeKey(seed, RandomPurpose::kSynthetic), run);
    Input input = corpus[random.NextBelow(static_cast<uint32_t>(corpus.size()))];
    // Most formats refuse a changed length before they check anything else.
    const bool keep_length = random.NextBelow(4) != 0;
    for (uint32_t left = 1 + random.NextBelow(6); left > 0; --left) {
      MutateOnce(corpus, keep_length, &random, &input);
    }
    // A buffer of exact size, so that a sanitizer finds a read beyond its end.
    const Input exact(input.begin(), input.end());
    Run(exact);
  }
  alarm(0);
  CheckMemory();
  std::printf("%zu inputs and %llu mutations of them: nothing went wrong\n", corpus.size(),
              static_cast<unsigned long long>(runs));
  return 0;
}

}  // namespace
}  // namespace psgd::fuzz

int main(int argc, char** argv) { return psgd::fuzz::Main(argc, argv); }
