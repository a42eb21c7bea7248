// Writes the corpora of targets that read files and texts.
//   make_data_corpus tests/fuzz/corpus
#include "absl/strings/str_cat.h"
#include "data/safetensors.h"
#include "experiment/config/config_yaml.h"
#include "tests/fuzz/corpus_file.h"
#include "tests/unit/data/idx_files.h"
#include "tests/unit/data/npz_files.h"
#include "tests/unit/data/picture_files.h"
#include "tests/unit/data/png_files.h"
#include "tests/unit/engine/onnx_maker.h"

namespace psgd::fuzz {
namespace {

using std::filesystem::path;

void WriteIdx(const path& folder) {
  const std::string images = IdxHeader({6, 3, 5}) + Ramp(6 * 15, 256),
                    labels = IdxHeader({6}) + Ramp(6, 4);
  const std::string small = IdxHeader({2, 3, 5}) + Ramp(2 * 15, 256),
                    two = IdxHeader({2}) + Ramp(2, 4);
  const auto join = [](const std::string& a, const std::string& b, const std::string& c,
                       const std::string& d) {
    return WithLength<uint16_t>(a) + WithLength<uint16_t>(b) + WithLength<uint16_t>(c) + d;
  };
  WriteCorpusFile(folder / "idx" / "plain.bin", join(images, labels, small, two));
  WriteCorpusFile(folder / "idx" / "gzip.bin",
                  join(Gzip(images), Gzip(labels), Gzip(small), Gzip(two)));
  WriteCorpusFile(folder / "idx" / "members.bin",
                  join(Gzip(images.substr(0, 40)) + Gzip(images.substr(40)), labels, small, two));
  WriteCorpusFile(folder / "idx_numbers" / "floats.bin",
                  join(images, IdxOf<float>(0x0d, {6}, {1, 2, -3, 0.5f, 5, 6}), small,
                       IdxOf<float>(0x0d, {2}, {2, -4})));
}

void WritePictures(const path& folder) {
  const std::string small = JpegOf(Gradient(11, 9), 60), large = JpegOf(Gradient(40, 24), 30);
  WriteCorpusFile(folder / "jpeg" / "small.jpg", small);
  WriteCorpusFile(folder / "jpeg" / "large.jpg", large);
  const std::string mask =
      PgmOf(PictureOf(11, 9, 1, [](int x, int y, int) { return (x + y) % 3; }));
  WriteCorpusFile(folder / "segmentation" / "pair.bin", WithLength<uint16_t>(small) + mask);
  const std::string png = PngOf(Gradient(11, 9)), interlaced = PngOf(Gradient(40, 24), true);
  WriteCorpusFile(folder / "png" / "small.png", png);
  WriteCorpusFile(folder / "png" / "interlaced.png", interlaced);
  WriteCorpusFile(
      folder / "png" / "palette.png",
      PngOf(8, 2, "\x2D\x93",
            {.color = PNG_COLOR_TYPE_PALETTE, .bits = 1, .palette = {{1, 2, 3}, {250, 0, 9}}}));
  WriteCorpusFile(folder / "png" / "deep.png",
                  PngOf(2, 2, Ramp(32, 256), {.color = PNG_COLOR_TYPE_RGB_ALPHA, .bits = 16}));
  WriteCorpusFile(folder / "images_table" / "two.bin",
                  WithLength<uint16_t>("file,y\nx.png,1.5\ny.png,-2\n") + png);
  WriteCorpusFile(folder / "segmentation" / "png.bin",
                  WithLength<uint16_t>(png) +
                      PngOf(PictureOf(11, 9, 1, [](int x, int y, int) { return (x + y) % 3; })));
  WriteCorpusFile(folder / "tar" / "plain.tar",
                  TarFile("a/0.jpg", small) + TarFile("a/0.cls", "1") + TarFile("a/1.cls", "0") +
                      TarFile("a/1.jpg", large) + TarEnd());
  WriteCorpusFile(folder / "tar" / "long.tar",
                  TarFile("././@LongLink", "long/0.jpg", 'L') + TarFile("long", small) +
                      TarFile("x", "19 path=long/0.cls\n", 'x') + TarFile("long", "1") + TarEnd());
}

void WriteTables(const path& folder) {
  WriteCorpusFile(folder / "libsvm" / "plain.txt", "1 1:0.5 7:-2e3\n-1 2:1 # said\n1\n");
  WriteCorpusFile(folder / "libsvm_numbers" / "plain.txt", "1.5 1:0.5 7:-2e3\n-1e9 2:1\n7\n");
  WriteCorpusFile(folder / "libsvm" / "gzip.bin", Gzip("+1 3:1\n0 1:1 2:-0.5\n"));
  std::string criteo;
  for (const char* label : {"0", "1"}) {
    criteo += label;
    for (int i = 0; i < 13; ++i) criteo += i % 3 == 0 ? "\t" : absl::StrCat("\t", 5 * i - 8);
    for (int i = 0; i < 26; ++i) criteo += i % 4 == 0 ? "\t" : absl::StrCat("\t68fd1e6", i % 10);
    criteo += "\n";
  }
  WriteCorpusFile(folder / "criteo" / "plain.txt", criteo);
  WriteCorpusFile(folder / "ratings" / "colons.txt",
                  "a::x::5::1\na::y::4::2\nb::z::3::3\nb::x::1::9\n");
  WriteCorpusFile(folder / "ratings" / "commas.txt",
                  "userId,movieId,rating,timestamp\n1,10,4.0,964982703\n1,11,4,964\n2,12,1,7\n");
  for (const char* format : {"table", "table_numbers"}) {
    WriteCorpusFile(folder / format / "commas.txt",
                    "a,\"b \"\"c\"\"\",y\n1,x,0\n-2.5e3,\"u,v\",1\n,NA,0\n7,x,1\n");
    WriteCorpusFile(folder / format / "tabs.txt", "y\tx\n0\t1\n2\t3\n1\t\n");
  }
}

void WriteArrays(const path& folder) {
  const std::string rows = NpyOf<float>("<f4", {3, 2}, {1, 5, 3, 5, 1, 5}),
                    pixels =
                        NpyOf<uint8_t>("|u1", {2, 1, 2, 3}, {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 1, 2}),
                    numbers = NpyOf<double>("<f8", {3}, {10, 20, 30}),
                    pairs = NpyOf<int64_t>("<i8", {2, 2}, {1, 2, 3, 4});
  WriteCorpusFile(folder / "stored.bin", ZipOf({{"x.npy", rows}, {"y.npy", numbers}}));
  WriteCorpusFile(folder / "deflated.bin",
                  ZipOf({{"x.npy", pixels}, {"y.npy", pairs}}, true, true));
}

void WriteTexts(const path& folder) {
  const std::string text =
      "In the beginning was the word, and the word was with the words; all words were made by it,\n"
      "and without it was not any thing made that was made.\n";
  for (const char* format : {"text", "byte_pairs"}) {
    WriteCorpusFile(folder / format / "words.txt", text);
    WriteCorpusFile(folder / format / "bytes.bin",
                    absl::StrCat(std::string(200, '\0'), "\xFF\xC3 \n\t", text));
  }
  for (const char* format : {"text_classes", "text_classes_byte_pairs"}) {
    WriteCorpusFile(folder / format / "rows.txt",
                    "y,text\nsea,made by words\nsky,\"was made, by it\"\nsea,by the words\n");
    WriteCorpusFile(folder / format / "tabs.txt", "text\ty\nthe the the the\t1\nby by by\t2\n");
    WriteCorpusFile(folder / format / "lines.txt",
                    "y,text\nsea,\"made by\nthe \"\"words\"\"\"\nsky,\"not closed\nby it\n");
  }
  WriteCorpusFile(folder / "text_folders" / "two.bin",
                  WithLength<uint16_t>("made by words") + "was made");
  for (const char* format : {"translation", "translation_byte_pairs"}) {
    WriteCorpusFile(
        folder / format / "pairs.txt",
        "the word\tword the\tleft out\n\nmade by it\tit by made\nwas\tsaw\nand the words\t"
        "sdrow eht dna\nwithout\ttuohtiw\nthing\tgniht\n");
  }
}

void WriteSafetensorsFiles(const path& folder) {
  const std::vector<float> values = {1, -2, 0.5f, 4, 5, 6};
  const NamedTensor tensors[] = {{"fc.weight", {2, 2}, std::span(values).first(4)},
                                 {"fc.bias", {2}, std::span(values).last(2)},
                                 {"none", {0, 3}, {}}};
  std::filesystem::create_directories(folder);
  const absl::Status written =
      WriteSafetensors((folder / "small.safetensors").string(), tensors, {{"format", "pt"}});
  if (!written.ok()) std::fprintf(stderr, "%s\n", std::string(written.message()).c_str());
}

void WriteConfigs(const path& folder) {
  Config config;
  WriteCorpusFile(folder / "yaml" / "defaults.yaml", FormatConfig(config));
  WriteCorpusFile(
      folder / "yaml" / "short.yaml",
      "model: {zoo: lenet5}\ncompression: topk\nschedule: {warmup: 1 epoch, cosine: {}}\n"
      "durability: {checkpoint: 30s}\nconsistency: {staleness: unbounded}\n"
      "name: \"a \\\"b\\x01\"\ndata: {mean: [0.1, 1e-3], path: 'x'}\n");
  WriteCorpusFile(folder / "yaml" / "rules.yaml",
                  "compression:\n  push: {topk: {density: 0.01}}\n  rules:\n"
                  "    - &r {match: \"fc*\", push: int8}\n    - *r\n    - {match: b}\n");
  WriteCorpusFile(folder / "set" / "some.txt",
                  "train.epochs=2\ncompression.push=onebit\ncompression.push.topk.density=0.5\n"
                  "compression.rules=[{match: a, push: topk}]\nname=x y: {\ndata.mean=[1, 2]\n"
                  "cluster.window=4MiB\nschedule={steps: {}}\ndurability.checkpoint=null\nseed=\n");
}

void WriteRequests(const path& folder) {
  WriteCorpusFile(folder / "get.txt",
                  "GET /metrics HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
  WriteCorpusFile(folder / "twice.txt",
                  "GET /metrics?a=%41&b HTTP/1.1\r\nHost: a\r\n\r\nHEAD / HTTP/1.0\r\n\r\n");
  WriteCorpusFile(
      folder / "post.txt",
      "POST /metrics HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nExpect: 100-continue\r\n"
      "Content-Type: application/x-www-form-urlencoded\r\n\r\na=b&c");
  WriteCorpusFile(folder / "chunked.txt",
                  "PUT /x HTTP/1.1\r\nTransfer-Encoding: chunked\r\nRange: bytes=0-1,5-\r\n"
                  "Accept-Encoding: gzip\r\n\r\n4\r\nabcd\r\n0\r\n\r\n");
  WriteCorpusFile(folder / "parts.txt",
                  "POST /metrics HTTP/1.1\r\nContent-Type: multipart/form-data; boundary=X\r\n"
                  "Content-Length: 70\r\n\r\n--X\r\nContent-Disposition: form-data; name=\"a\"; "
                  "filename=\"b\"\r\n\r\nc\r\n--X--\r\n");
}

// Larger models are in tests/golden/onnx.
void WriteModels(const path& folder) {
  namespace maker = psgd::testing;
  WriteCorpusFile(folder / "small" / "small.onnx", maker::SmallModel().SerializeAsString());
  onnx::ModelProto tokens = maker::EmptyModel({0, 12});
  onnx::GraphProto* graph = tokens.mutable_graph();
  auto* type = graph->mutable_input(0)->mutable_type()->mutable_tensor_type();
  type->set_elem_type(onnx::TensorProto::INT64);
  maker::AddWeights(graph, "embedding", {40, 4});
  maker::AddWeights(graph, "out", {4, 40});
  maker::AddNode(graph, "Gather", {"embedding", "x"}, "e");
  maker::AddNode(graph, "Tanh", {"e"}, "t");
  maker::AddNode(graph, "MatMul", {"t", "out"}, "y");
  maker::SetOutput(graph, "y");
  WriteCorpusFile(folder / "tokens" / "small.onnx", tokens.SerializeAsString());
  onnx::ModelProto images = maker::EmptyModel({0, 3, 16, 16});
  graph = images.mutable_graph();
  maker::AddWeights(graph, "conv", {4, 3, 3, 3});
  maker::AddWeights(graph, "fc", {10, 4});
  maker::AddNode(graph, "Conv", {"x", "conv"}, "c");
  maker::AddNode(graph, "Relu", {"c"}, "r");
  maker::AddNode(graph, "GlobalAveragePool", {"r"}, "p");
  maker::AddNode(graph, "Flatten", {"p"}, "f");
  maker::SetInt(maker::AddNode(graph, "Gemm", {"f", "fc"}, "y"), "transB", 1);
  maker::SetOutput(graph, "y");
  WriteCorpusFile(folder / "images" / "small.onnx", images.SerializeAsString());
}

void WriteCorpus(const path& folder) {
  WriteIdx(folder / "data");
  std::string records;
  for (int label = 0; label < 2; ++label) records += static_cast<char>(label) + Ramp(3072, 256);
  WriteCorpusFile(folder / "data" / "cifar" / "two.bin",
                  WithLength<uint16_t>(records.substr(0, 3073)) + records.substr(3073));
  WritePictures(folder / "data");
  WriteTables(folder / "data");
  WriteArrays(folder / "data" / "arrays");
  WriteTexts(folder / "data");
  WriteSafetensorsFiles(folder / "safetensors" / "file");
  WriteConfigs(folder / "config");
  WriteRequests(folder / "http" / "request");
  WriteModels(folder / "onnx");
}

}  // namespace
}  // namespace psgd::fuzz

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: make_data_corpus FOLDER\n");
    return 2;
  }
  psgd::fuzz::WriteCorpus(argv[1]);
  return 0;
}
