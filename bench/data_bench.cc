#include "bench/data_bench.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <string>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/clock.h"
#include "common/philox.h"
#include "data/images.h"
#include "data/jpeg.h"
#include "data/loader.h"

namespace psgd {
namespace {

constexpr uint64_t kSeed = 1;
constexpr int kBatch = 32;
constexpr int kClasses = 10;
constexpr int kQuality = 90;
constexpr int kNoise = 48;           // makes the files as large as photographs
constexpr double kCloseness = 0.02;  // for the mean difference from the known image

// Images in memory. Thread-safe: immutable.
class MemoryImages final : public EncodedImages {
 public:
  explicit MemoryImages(std::vector<std::vector<uint8_t>> images) : images_(std::move(images)) {}

  size_t size() const override { return images_.size(); }
  int32_t label(size_t index) const override { return static_cast<int32_t>(index % kClasses); }
  absl::StatusOr<std::vector<uint8_t>> Read(size_t index) const override { return images_[index]; }
  std::string Name(size_t index) const override { return absl::StrCat("image ", index); }
  double mean_bytes() const {
    double sum = 0;
    for (const auto& image : images_) sum += static_cast<double>(image.size());
    return sum / static_cast<double>(images_.size());
  }

 private:
  const std::vector<std::vector<uint8_t>> images_;
};

// Red grows to the right, green downward, and noise covers everything.
absl::StatusOr<std::shared_ptr<const MemoryImages>> MakeImages(const DataBenchOptions& options) {
  std::vector<std::vector<uint8_t>> images;
  for (int i = 0; i < options.images; ++i) {
    RandomStream random(MakeKey(kSeed, RandomPurpose::kSynthetic), static_cast<uint64_t>(i));
    Picture picture(options.width, options.height, 3);
    uint8_t* out = picture.pixels.get();
    for (int y = 0; y < options.height; ++y) {
      for (int x = 0; x < options.width; ++x) {
        const int noise = static_cast<int>(random.NextBelow(kNoise));
        *out++ = static_cast<uint8_t>((255 - kNoise) * x / options.width + noise);
        *out++ = static_cast<uint8_t>((255 - kNoise) * y / options.height + noise);
        *out++ = static_cast<uint8_t>(100 + noise);
      }
    }
    PSGD_ASSIGN_OR_RETURN(images.emplace_back(), EncodeJpeg(picture, kQuality));
  }
  return std::make_shared<const MemoryImages>(std::move(images));
}

std::shared_ptr<const SampleSource> MakeSource(const DataBenchOptions& options,
                                               std::shared_ptr<const MemoryImages> images,
                                               bool train) {
  ImagesConfig config;
  config.set_size(options.size);
  AugmentConfig augment;
  augment.set_resized_crop(true);
  augment.set_flip(true);
  auto pictures = MakeImageDataset(
      std::move(images),
      {.channels = 3, .height = options.size, .width = options.size, .classes = kClasses},
      train ? Viewer::Augmented(config, augment, kSeed) : Viewer::Centred(config));
  Transforms transforms;
  transforms.push_back(std::make_unique<Normalize>(
      pictures->shape(), Normalization{{0.5f, 0.5f, 0.5f}, {0.25f, 0.25f, 0.25f}}));
  return std::make_shared<SampleSource>(std::move(pictures), std::move(transforms));
}

BatchLoaderOptions LoaderOptions(int threads) {
  return {.batch = kBatch, .prefetch = 2 * threads, .threads = threads, .seed = kSeed};
}

// Enqueues batches epoch after epoch.
void EnqueueNext(BatchLoader* loader, uint32_t number) {
  const uint32_t each = loader->batches_per_epoch();
  loader->Enqueue(number / each, number % each);
}

absl::StatusOr<bool> SameAsOneThread(const std::shared_ptr<const SampleSource>& source,
                                     int threads) {
  BatchLoader one(source, LoaderOptions(1)), several(source, LoaderOptions(threads));
  for (uint32_t i = 0; i < one.batches_per_epoch(); ++i) {
    EnqueueNext(&one, i);
    EnqueueNext(&several, i);
  }
  for (uint32_t i = 0; i < one.batches_per_epoch(); ++i) {
    PSGD_ASSIGN_OR_RETURN(const Batch expected, one.Next());
    PSGD_ASSIGN_OR_RETURN(const Batch batch, several.Next());
    if (!std::equal(batch.pixels.begin(), batch.pixels.end(), expected.pixels.begin()) ||
        !std::equal(batch.labels.begin(), batch.labels.end(), expected.labels.begin())) {
      return false;
    }
  }
  return true;
}

// Compares the middle of the first image, before normalization, with what was drawn.
absl::StatusOr<bool> MiddleIsRight(const DataBenchOptions& options, const MemoryImages& images) {
  ImagesConfig config;
  config.set_size(options.size);
  const auto side = static_cast<size_t>(options.size);
  std::vector<float> pixels(3 * side * side);
  PSGD_ASSIGN_OR_RETURN(const std::vector<uint8_t> jpeg, images.Read(0));
  const Viewer viewer = Viewer::Centred(config);
  PSGD_RETURN_IF_ERROR(DecodeView(jpeg, viewer, {}, options.size, pixels));
  const Window window = viewer.Choose({}, options.width, options.height).window;
  double difference = 0;
  for (size_t y = 0; y < side; ++y) {
    for (size_t x = 0; x < side; ++x) {
      const double share =
          (window.left + (static_cast<double>(x) + 0.5) * window.width / options.size) /
          options.width;
      difference += pixels[y * side + x] - ((255 - kNoise) * share + kNoise / 2.0) / 255;
    }
  }
  return std::abs(difference) / static_cast<double>(side * side) < kCloseness;
}

absl::StatusOr<double> LoadedPerSecond(const std::shared_ptr<const SampleSource>& source,
                                       const DataBenchOptions& options) {
  BatchLoader loader(source, LoaderOptions(options.threads));
  const auto ahead = static_cast<uint32_t>(4 * options.threads);
  uint32_t asked = 0;
  while (asked < ahead) EnqueueNext(&loader, asked++);
  for (uint32_t i = 0; i < ahead / 2; ++i) PSGD_RETURN_IF_ERROR(loader.Next().status());
  const Time start = SteadyNow();
  int batches = 0;
  double seconds = 0;
  while (seconds < options.seconds) {
    EnqueueNext(&loader, asked++);
    PSGD_RETURN_IF_ERROR(loader.Next().status());
    ++batches;
    seconds = Seconds(SteadyNow() - start);
  }
  return batches * kBatch / seconds;
}

double DecodedPerSecond(const MemoryImages& images, const DataBenchOptions& options) {
  std::atomic<size_t> next{0}, decoded{0};
  const Time start = SteadyNow();
  std::vector<std::thread> threads;
  for (int t = 0; t < options.threads; ++t) {
    threads.emplace_back([&] {
      while (Seconds(SteadyNow() - start) < options.seconds) {
        const auto jpeg = images.Read(next++ % images.size());
        const auto reader = JpegReader::Open(*jpeg);
        if (reader.ok() && reader->Decode(1).ok()) ++decoded;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  return static_cast<double>(decoded) / Seconds(SteadyNow() - start);
}

}  // namespace

absl::StatusOr<std::vector<BenchRow>> RunDataBench(const DataBenchOptions& options) {
  if (options.images < kBatch || options.threads < 1 || options.size < 1 ||
      std::min(options.width, options.height) < 1) {
    return InvalidArgumentError("the data benchmark needs at least ", kBatch,
                                " images, one thread and one pixel");
  }
  PSGD_ASSIGN_OR_RETURN(const std::shared_ptr<const MemoryImages> images, MakeImages(options));
  PSGD_ASSIGN_OR_RETURN(const bool middle, MiddleIsRight(options, *images));
  const double decoded = DecodedPerSecond(*images, options);
  const double bytes = 3.0 * options.size * options.size * sizeof(float);
  std::vector<BenchRow> rows;
  for (const bool train : {true, false}) {
    const auto source = MakeSource(options, images, train);
    BenchRow row;
    row.bench = "data";
    row.name = absl::StrCat(train ? "train/" : "test/", options.width, "x", options.height, "/",
                            options.size, "/", options.threads, " threads");
    PSGD_ASSIGN_OR_RETURN(const bool same, SameAsOneThread(source, options.threads));
    row.verified = same && middle;
    PSGD_ASSIGN_OR_RETURN(const double loaded, LoadedPerSecond(source, options));
    row.gbps = loaded * bytes / 1e9;
    row.limit_gbps = decoded * bytes / 1e9;
    row.ratio = loaded / decoded;
    row.extra["images_per_second"] = loaded;
    row.extra["decoded_per_second"] = decoded;
    row.extra["threads"] = options.threads;
    row.extra["jpeg_bytes"] = images->mean_bytes();
    rows.push_back(std::move(row));
  }
  return rows;
}

}  // namespace psgd
