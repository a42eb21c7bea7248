#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "experiment/config/config_yaml.h"

namespace psgd {
namespace {

using ::testing::HasSubstr;

constexpr char kSound[] = "model: {zoo: mlp}\ndata: {format: synthetic}\n";

Config Sound() { return *ParseConfig(kSound, "sound"); }

absl::Status AfterSets(const std::vector<std::string>& sets) {
  Config config = Sound();
  for (const std::string& set : sets) {
    const absl::Status status = ApplySet(set, &config);
    EXPECT_TRUE(status.ok()) << status;
  }
  const absl::Status status = ValidateConfig(config);
  EXPECT_EQ(ValidateConfig(ResolveDefaults(config)), status) << "defaults made a difference";
  return status;
}

TEST(ConfigValidate, AcceptsASoundConfig) { EXPECT_TRUE(AfterSets({}).ok()); }

TEST(ConfigValidate, AcceptsTheKeysOfTraining) {
  const absl::Status status =
      AfterSets({"train={clip: {norm: 1, value: 0.5}, average: 0.99, early_stop: {patience: 3, "
                 "least: 0.001}}",
                 "data.batch=64", "data.micro_batch=16", "durability.checkpoint=1 epoch",
                 "durability.keep_best=true", "optimizer.groups=[{match: fc1.*, rate: 0}]",
                 "schedule={warmup: 5 steps, inverse_sqrt: {}}"});
  EXPECT_TRUE(status.ok()) << status;
}

// Resolved, a group without a decay still has the optimizer's.
TEST(ConfigValidate, AGroupsDecayMayStayUnset) {
  Config config = Sound();
  ASSERT_TRUE(ApplySet("optimizer.groups=[{match: fc1.*, rate: 0.1}]", &config).ok());
  const Config resolved = ResolveDefaults(config);
  EXPECT_FALSE(resolved.optimizer().groups(0).has_weight_decay());
  const auto again = ParseConfig(FormatConfig(resolved), "again");
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_FALSE(again->optimizer().groups(0).has_weight_decay());
}

TEST(ConfigValidate, CrossChecks) {
  const struct {
    std::vector<std::string> sets;
    const char* error;
  } cases[] = {
      {{"model.zoo="},
       "model.zoo is missing: say which network to train, as model: {zoo: lenet5} or model: {onnx: "
       "model.onnx}; or model: client, for a program that brings its own"},
      {{"data.format=idx"},
       "data.path is missing: format idx needs the folder of the idx files; or say data.format: "
       "synthetic, which needs none"},
      {{"data.format=text"},
       "data.path is missing: format text needs a file, or a folder of files, to read"},
      {{"data.format=cifar10"},
       "data.path is missing: format cifar10 needs the folder that holds data_batch_1.bin and its "
       "siblings"},
      {{"data.format=images", "data.path=x", "data.images.size=64", "data.images.resize=63"},
       "data.images.resize is 63, less than the data.images.size of 64 that is then cut out: make "
       "it larger, or 0 for 8/7 of it"},
      {{"data.format=images", "data.path=x", "data.images.classes=3"},
       "data.images.classes is for format segmentation; format images finds its classes itself: "
       "leave it out"},
      {{"data.format=segmentation", "data.path=x"},
       "data.images.classes is missing: format segmentation needs the number of classes that the "
       "pixels of masks have, at least 2"},
      {{"data.format=segmentation", "data.path=x", "data.images.classes=2",
        "data.augment.crop_padding=4"},
       "data.augment.crop_padding does not move masks: use data.augment.resized_crop with format "
       "segmentation"},
      {{"data.images.size=64"},
       "data.images does nothing with format synthetic: leave it out, or set data.format to "
       "images"},
      {{"data.augment.resized_crop=true"},
       "data.augment.resized_crop is for formats images and segmentation: use "
       "data.augment.crop_padding, or leave it out"},
      {{"data.augment.crop_area=0.5"},
       "data.augment.crop_area and crop_ratio do nothing without data.augment.resized_crop: set it "
       "to true, or leave them out"},
      {{"data.format=text"},
       "data.path is missing: format text needs a file, or a folder of files, to read"},
      {{"data.format=translation"},
       "data.path is missing: format translation needs a file of lines of a source, a tab and its "
       "target"},
      {{"data.translation.source_length=9"},
       "data.translation does nothing with format synthetic: leave it out, or set data.format to "
       "translation"},
      {{"data.tokens=bpe"},
       "data.tokens does nothing with format synthetic: leave it out, or set data.format to text, "
       "text_classes or translation"},
      {{"data.format=text_classes"},
       "data.path is missing: format text_classes needs a table of texts, or a folder with a "
       "folder of texts for each class"},
      {{"data.format=text_classes", "data.path=x", "data.text.test_fraction=0.2"},
       "data.text.test_fraction does nothing with format text_classes: use "
       "data.table.test_fraction"},
      {{"data.format=text_classes", "data.path=x", "data.categories=[a]"},
       "data.categories does nothing with format text_classes: leave it out, or set data.format "
       "to table"},
      {{"data.format=images", "data.path=x", "data.images.labels=labels.csv"},
       "data.target is missing: name the column that is to be predicted, or a list of columns"},
      {{"data.format=images", "data.path=x", "data.target=y"},
       "data.target does nothing with format images without data.images.labels: name the table of "
       "labels there, or leave it out"},
      {{"data.format=images", "data.path=x", "data.table.test=y.csv"},
       "data.table.test does nothing with images that have no data.images.labels: leave it out"},
      {{"data.format=segmentation", "data.path=x", "data.images.classes=2",
        "data.images.labels=labels.csv"},
       "data.images.labels is for format images; format segmentation has masks: leave it out"},
      {{"data.format=libsvm", "data.path=x", "data.standardize=false"},
       "data.standardize does nothing with format libsvm: leave it out; it reads inputs as they "
       "are, and always standardizes numbers to predict"},
      {{"data.standardize=false"},
       "data.standardize does nothing with format synthetic: leave it out; images have data.mean "
       "and data.stddev"},
      {{"data.format=libsvm", "data.path=x", "data.target_kind=number"},
       "data.target_kind is number, but model.loss is cross_entropy, which is of class: leave "
       "target_kind out, and set model.loss to cross_entropy for a class, to squared or smooth_l1 "
       "for numbers, to poisson for counts, or to sigmoid for labels"},
      {{"data.format=text", "data.path=x", "data.vocabulary=300"},
       "data.vocabulary does nothing with bytes, of which there are 256: leave it out, or set "
       "data.tokens to bpe"},
      {{"data.format=text", "data.path=x", "data.target=book"},
       "data.target does nothing with format text: leave it out, or set data.format to "
       "text_classes to learn labels of texts"},
      {{"data.target=price"},
       "data.target does nothing with format synthetic: leave it out, or set data.format to table"},
      {{"data.target_kind=number"},
       "data.target_kind does nothing with format synthetic, whose samples have classes: leave it "
       "out"},
      {{"model.loss=poisson"},
       "model.loss is poisson, which is of counts, and samples of format synthetic have classes: "
       "use cross_entropy"},
      {{"data.format=table", "data.path=a.csv"},
       "data.target is missing: name the column that is to be predicted, or a list of columns"},
      {{"data.format=table", "data.target=y"},
       "data.path is missing: format table needs a file of comma- or tab-separated values"},
      {{"data.format=table", "data.path=a.csv", "data.target=y", "data.table.features=3"},
       "data.table.features does nothing with format table: leave it out"},
      {{"data.format=table", "data.path=a.csv", "data.target=y", "data.target_kind=class",
        "model.loss=squared"},
       "data.target_kind is class, but model.loss is squared, which is of number: leave "
       "target_kind out, and set model.loss to cross_entropy for a class, to squared or smooth_l1 "
       "for numbers, to poisson for counts, or to sigmoid for labels"},
      {{"data.mean=[0.5]"},
       "data.mean has 1 and data.stddev 0 values: give one of each a channel, or neither"},
      {{"data.synthetic.shape=[8,8]"},
       "data.synthetic.shape has 2 numbers: give channels, height and width, as [1, 28, 28]"},
      {{"data.batch=5000"},
       "data.synthetic.train_samples is 4096, less than one data.batch of 5000: take more samples "
       "or smaller batches"},
      {{"data.train_samples=10"},
       "data.train_samples is 10, less than one data.batch of 64: take more samples or smaller "
       "batches"},
      {{"compression.push={onebit: {block: 100}}"},
       "compression.push: onebit.block is 100; it must be a multiple of 64 between 64 "
       "and 1048576, such as 128"},
      {{"compression.push.auto.codecs=[{onebit: {block: 100}}]"},
       "compression.push.auto.codecs[0]: onebit.block is 100; it must be a multiple of 64 between "
       "64 "
       "and 1048576, such as 128"},
      {{"compression.push.auto.codecs=[topk, dgc]"},
       "compression.push.auto.codecs[1]: dgc applies momentum on the worker, and no other codec "
       "could "
       "go on from it: leave it out, or name it as compression.push"},
      {{"compression.rules=[{match: fc*, push: {auto: {codecs: [signum]}}}]"},
       "compression.rules[0].push.auto.codecs[0]: signum applies momentum on the worker, and no "
       "other "
       "codec could go on from it: leave it out, or name it as compression.push"},
      {{"compression.push.auto.codecs=[factors, topk]"},
       "compression.push.auto.codecs[0]: factors come from the layer, in place of the gradient "
       "that the "
       "others are tried on: name it in compression.rules"},
      {{"compression.push.auto.codecs=[fp16]"},
       "compression.push.auto.codecs: fp16 alone leaves nothing to choose: name another codec, or "
       "say "
       "compression.push: fp16"},
      {{"compression.push.auto.codecs=[topk, onebit, topk]"},
       "compression.push.auto.codecs[2]: topk is named twice, first as "
       "compression.push.auto.codecs[0]"},
      {{"compression.push.auto.codecs=[auto, topk]"},
       "compression.push.auto.codecs[0]: auto is a choice among codecs, and none itself"},
      {{"compression.push.auto.codecs=[{qsgd: {norm: l2}}]"},
       "compression.push.auto.codecs[0]: qsgd with norm l2 may err by more than what it sends, and "
       "residuals would pile up: set compression.error_feedback to false, or norm to max"},
      {{"compression.pull.delta.codec=auto"},
       "compression.pull.delta.codec auto: only pushes are measured: name a codec"},
      {{"compression.rules=[{match: fc*, push: {onebit: {block: 65}}}]"},
       "compression.rules[0].push: onebit.block is 65; it must be a multiple of 64 "
       "between 64 and 1048576, such as 128"},
      {{"model.loss=squared", "model.label_smoothing=0.1"},
       "model.label_smoothing is of cross-entropy alone: set it to 0, or leave model.loss out"},
      {{"model.loss=sigmoid", "model.ignored_label=0"},
       "model.ignored_label is of cross-entropy alone: leave it out, or model.loss"},
      {{"optimizer.sgd.nesterov=true"},
       "optimizer.sgd.nesterov needs a momentum: set optimizer.sgd.momentum, as 0.9"},
      {{"optimizer={delayed_nesterov: {spread: 0.5, momentum: 0}}"},
       "optimizer.delayed_nesterov.spread divides the momentum's step: set "
       "optimizer.delayed_nesterov.momentum, as 0.9, or leave spread out"},
      {{"optimizer={delayed_nesterov: {spread: 0.5, every: 1}}"},
       "optimizer.delayed_nesterov.spread divides the momentum's step between the updates of a "
       "round, and a round has one (optimizer.delayed_nesterov.every is 1): set "
       "optimizer.delayed_nesterov.every to 2 or more, or leave spread out"},
      {{"optimizer={delayed_nesterov: {spread: 0.5}}", "cluster.workers=1"},
       "optimizer.delayed_nesterov.spread divides the momentum's step between the updates of a "
       "round, and a round has one (cluster.workers is 1): set "
       "optimizer.delayed_nesterov.every to 2 or more, or leave spread out"},
      {{"compression.pull=delta", "optimizer=delayed_nesterov"},
       "compression.pull.delta sends the weights that changed, and this optimizer changes all at "
       "every step: use optimizer.sgd without momentum, adagrad or worker, or give "
       "compression.pull.delta "
       "a lossy codec, as {codec: {topk: {density: 0.01}}}"},
      {{"compression.pull=delta", "optimizer=lars"},
       "compression.pull.delta sends the weights that changed, and this optimizer changes all at "
       "every step: use optimizer.sgd without momentum, adagrad or worker, or give "
       "compression.pull.delta "
       "a lossy codec, as {codec: {topk: {density: 0.01}}}"},
      {{"compression.pull=delta", "optimizer=lamb"},
       "compression.pull.delta sends the weights that changed, and this optimizer changes all at "
       "every step: use optimizer.sgd without momentum, adagrad or worker, or give "
       "compression.pull.delta "
       "a lossy codec, as {codec: {topk: {density: 0.01}}}"},
      {{"optimizer=muon"},
       "optimizer: muon moves whole matrices, and shards have slices of them: choose adamw, or "
       "make it the local.optimizer of a run with local.steps, as 30"},
      {{"compression.push=dgc", "optimizer=lars"},
       "compression.push: dgc applies momentum on the worker, so the server's optimizer must be "
       "sgd without: set optimizer.sgd.momentum to 0 and compression.push.dgc.momentum to what it "
       "was"},
      {{"schedule=step"},
       "schedule.step.every is missing or zero: say how often the rate falls, as 10 epochs"},
      {{"schedule={step: {every: 0 epochs}}"},
       "schedule.step.every is missing or zero: say how often the rate falls, as 10 epochs"},
      {{"schedule=inverse_sqrt"},
       "schedule.inverse_sqrt falls from the end of the warm-up, and there is none: set "
       "schedule.warmup, as 500 steps"},
      {{"schedule={warmup: 5 steps, one_cycle: {}}"},
       "schedule.one_cycle begins with a rise of its own (schedule.one_cycle.rise): leave "
       "schedule.warmup out"},
      {{"train.clip.norm=1", "model=client"},
       "train.clip is of ps-worker's own training, and with model: client programs train: leave it "
       "out, and clip in the program, as with torch.nn.utils.clip_grad_norm_"},
      {{"train.clip.value=1", "compression.push=factors"},
       "train.clip.value bounds the elements of gradients, which compression.push factors never "
       "computes: use train.clip.norm, or another codec"},
      {{"data.batch=64", "data.micro_batch=24"},
       "data.batch is 64, no multiple of the 24 samples of data.micro_batch: choose one that "
       "divides it"},
      {{"data.batch=64", "data.micro_batch=128"},
       "data.batch is 64, no multiple of the 128 samples of data.micro_batch: choose one that "
       "divides it"},
      {{"data.micro_batch=8", "model=client"},
       "data.micro_batch is of ps-worker's own training, and with model: client programs train: "
       "leave it out, and add gradients up in the program"},
      {{"optimizer.groups=[{rate: 0.1}]"},
       "optimizer.groups[0].match is missing: say which parameters, as *.bias"},
      {{"optimizer.groups=[{match: fc1.*, rate: 0.1}, {match: \"*\"}]"},
       "optimizer.groups[1] changes nothing: set its rate, as 0.1, or its weight_decay, as 0"},
      {{"optimizer={worker: {}, groups: [{match: fc1.*, rate: 0.1}]}", "model=client"},
       "optimizer.groups is of the optimizer of the shards, and with optimizer: worker the workers "
       "have it: leave groups out, and set them in the program"},
      {{"optimizer={worker: {}, groups: [{match: fc1.*, rate: 0.1}]}", "local.steps=4"},
       "optimizer.groups is of the optimizer of the shards, and with optimizer: worker the workers "
       "have it: set local.optimizer.groups instead"},
      {{"optimizer={sgd: {}, groups: [{match: fc1.*, weight_decay: 0}]}", "local.steps=4"},
       "optimizer.groups has a weight_decay, and with local.steps the shards' optimizer gets what "
       "weights moved by: set local.optimizer.groups instead"},
      {{"train.early_stop.least=0.1"},
       "train.early_stop.least does nothing without train.early_stop.patience: set that, as 3 "
       "evaluations, or leave it out"},
      {{"durability.keep_best=true"},
       "durability.keep_best keeps one of the checkpoints, and there is only that at the end: set "
       "durability.checkpoint, as 1 epoch"},
      {{"schedule=multistep"},
       "schedule.multistep.at is empty: say when the rate falls, as [10 epochs, 15 epochs]"},
      {{"schedule={multistep: {at: [2 epochs, 1 epoch]}}"},
       "schedule.multistep.at must grow from entry to entry, all in epochs or all in steps"},
      {{"schedule={multistep: {at: [2 epochs, 2 epochs]}}"},
       "schedule.multistep.at must grow from entry to entry, all in epochs or all in steps"},
      {{"schedule={multistep: {at: [2 epochs, 500 steps]}}"},
       "schedule.multistep.at must grow from entry to entry, all in epochs or all in steps"},
      {{"consistency.compensation=scale"},
       "consistency.compensation corrects stale pushes, and at staleness 0 there are none: set "
       "consistency.staleness above 0, or consistency.compensation to none"},
      {{"consistency.pull_ahead=true"},
       "consistency.pull_ahead fetches weights that lack the step under way: set "
       "consistency.staleness above 0, or consistency.pull_ahead to false"},
      {{"consistency.pull_ahead=true", "consistency.staleness=2", "consistency.compensation=delay"},
       "consistency.compensation delay needs the weights that a push was computed from, and "
       "consistency.pull_ahead replaces them before: keep one of the two"},
      {{"consistency.staleness=0", "consistency.quorum=3", "cluster.workers=2"},
       "consistency.quorum is 3, and there are 2 workers (cluster.workers): so many never push a "
       "clock, so lower consistency.quorum"},
      {{"consistency.staleness=2", "consistency.quorum=1"},
       "consistency.quorum is of workers that wait for each other, and above staleness 0 none "
       "waits "
       "for a whole clock: set consistency.staleness to 0, or leave consistency.quorum out"},
      {{"consistency.quorum=1", "cluster.segment=1"},
       "consistency.quorum does nothing with cluster.segment 1, because the last clock of a "
       "segment "
       "waits for all workers: set cluster.segment, as 64"},
      {{"consistency.quorum=1", "compression.push=factors"},
       "consistency.quorum and compression.push factors exclude each other: a worker forgets its "
       "own factors after a clock, and a late push would need them longer; choose another codec, "
       "as "
       "powersgd"},
      {{"consistency.grace=1s"},
       "consistency.grace says how long a clock with its quorum waits for the others, and there is "
       "no quorum: set consistency.quorum, or leave consistency.grace out"},
      {{"consistency.staleness=0", "consistency.quorum=1", "consistency.compensation=delay"},
       "consistency.compensation delay is for pushes that are applied one by one, and with "
       "consistency.quorum the pushes of a clock are one update: set it to scale or none"},
      {{"local.fragments=2"},
       "local.steps is 1, so each step is an exchange and the other keys of local do nothing: set "
       "local.steps, as 30, or leave local out"},
      {{"local={steps: 30, most: 50}"},
       "local.most bounds local.steps: auto, and local.steps is 30: leave local.most out"},
      {{"local={steps: 30, least: 30, schedule: {cosine: {}}}"},
       "local.least is 30, and the steps between two exchanges grow from it to 30: lower "
       "local.least, as to 4, or leave it out"},
      {{"local={steps: 30, least: 2, fragments: 4, schedule: {cosine: {}}}"},
       "local.least is 2, and there are 4 fragments: each needs at least one step, so raise "
       "local.least or lower local.fragments"},
      {{"local={steps: 100, least: 4, schedule: {cosine: {}}}", "train.max_steps=1000",
        "optimizer.sgd.learning_rate=1", "schedule.warmup=251 steps"},
       "schedule.warmup is longer than the run, which would never reach its learning rate: "
       "shorten it, or train longer"},
      {{"local={steps: 30, least: 4}"},
       "local.least: steps grow as local.schedule lowers the rate, and it does not: set "
       "local.schedule, as {cosine: {}}, or leave local.least out"},
      {{"local.optimizer=adamw"},
       "local.steps is 1, so each step is an exchange and the other keys of local do nothing: set "
       "local.steps, as 30, or leave local out"},
      {{"local={steps: 30, schedule: {warmup: 2 epochs}}"},
       "local.schedule.warmup is longer than the run, which would never reach its learning rate: "
       "shorten it, or train longer"},
      {{"local.steps=30", "train.max_steps=3000", "optimizer.sgd.learning_rate=1",
        "schedule.warmup=101 steps"},
       "schedule.warmup is longer than the run, which would never reach its learning rate: "
       "shorten it, or train longer"},
      {{"local.steps=30", "consistency.reduction=sum"},
       "consistency.reduction sum adds the whole weight changes of all workers, which moves too "
       "far: set it to mean, and the rate of optimizer higher if that is wanted"},
      {{"local={steps: 4, fragments: 8}"},
       "local.fragments is 8, and there are 4 local steps: each fragment needs at least one, so "
       "lower local.fragments or raise local.steps"},
      {{"local={steps: 30, fragments: 6, delay: 5}"},
       "local.delay is 5, and the next exchange begins after 5 steps (local.steps / "
       "local.fragments): lower local.delay"},
      {{"local={steps: 30, delay: 30}"},
       "local.delay is 30, and the next exchange begins after 30 steps: lower local.delay"},
      {{"local={steps: 30, optimizer: worker}"},
       "local.optimizer must be one that makes updates from gradients: choose sgd, adam, adamw, "
       "adagrad, lars, lamb or muon"},
      {{"local={steps: 30, optimizer: {sgd: {nesterov: true}}}"},
       "local.optimizer.sgd.nesterov needs a momentum: set local.optimizer.sgd.momentum, as 0.9"},
      {{"local.steps=30", "optimizer={sgd: {weight_decay: 1e-4}}"},
       "optimizer has a weight_decay, and with local.steps the shards' optimizer gets what weights "
       "moved by: set local.optimizer.*.weight_decay instead"},
      {{"local.steps=30", "consistency={staleness: 2, compensation: delay}",
        "optimizer={sgd: {learning_rate: 1}}"},
       "consistency.compensation delay corrects gradients, and with local.steps the updates are "
       "differences of weights: set it to none or scale"},
      {{"local.steps=30", "consistency={staleness: 2, pull_ahead: true}"},
       "consistency.pull_ahead brings weights that lack this worker's last local steps: leave it "
       "out, and hide the exchange with local.delay"},
      {{"local.steps=30", "compression.push=dgc"},
       "compression.push: dgc keeps a momentum of single steps, and with local.steps a push has "
       "many: choose topk or chunked, and give the momentum to local.optimizer"},
      {{"local.steps=30", "compression.rules=[{match: fc*, push: factors}]"},
       "compression.rules[0].push: factors are of a single step's gradient, and with local.steps a "
       "push has what many steps changed: choose another codec, as powersgd"},
      {{"local={steps: 30, fragments: 2}", "compression.push=auto"},
       "compression.push: auto tries codecs on whole tensors, and local.fragments sends parts: "
       "name "
       "a codec, or set local.fragments to 1"},
      {{"local={steps: 30, delay: 2}", "model=client"},
       "local.fragments, local.delay and local.mix are of ps-worker's own training, and with "
       "model: "
       "client programs train: leave them out"},
      {{"local={steps: 30, optimizer: adamw}", "model=client"},
       "local.optimizer and local.schedule are of ps-worker's own training, and with model: client "
       "programs have them: leave them out, and set the rate in the program"},
      {{"local={steps: 30, least: 4}", "model=client"},
       "local.least follows local.schedule, and with model: client programs have the schedule: "
       "leave local.least out"},
      {{"compression.pull=delta", "optimizer={sgd: {momentum: 0.9}}"},
       "compression.pull.delta sends the weights that changed, and this optimizer changes all at "
       "every "
       "step: use optimizer.sgd without momentum, adagrad or worker, or give "
       "compression.pull.delta a "
       "lossy "
       "codec, as {codec: {topk: {density: 0.01}}}"},
      {{"compression.pull={delta: {codec: none}}"},
       "compression.pull.delta.codec none leaves nothing out: name a lossy codec, or leave codec "
       "away to "
       "send what changed"},
      {{"compression.pull={delta: {codec: dgc}}"},
       "compression.pull.delta.codec is of differences between weights, and dgc, signum and "
       "factors are "
       "made for gradients: use topk, or sign"},
      {{"compression.pull={delta: {codec: factors}}"},
       "compression.pull.delta.codec is of differences between weights, and dgc, signum and "
       "factors are "
       "made for gradients: use topk, or sign"},
      {{"compression.pull={delta: {codec: {qsgd: {norm: l2}}}}"},
       "compression.pull.delta.codec: qsgd with norm l2 may err by more than what it sends, and "
       "residuals "
       "would pile up: set norm to max"},
      {{"compression.pull={delta: {codec: {qsgd: {block: 1024}}}}"},
       "compression.pull.delta.codec: qsgd with 4 bits, stochastic rounding and blocks of 1024 may "
       "err by "
       "more than what it sends, and residuals would pile up: set rounding to nearest, or blocks "
       "of at "
       "most 384"},
      {{"compression.push=factors", "node.reduce=nccl"},
       "compression.push: factors have no sum, which is what node.reduce nccl makes of gradients: "
       "set "
       "node.reduce to host or none"},
      {{"compression.rules=[{match: fc*, push: factors}]", "node.reduce=nccl"},
       "compression.rules[0].push: factors have no sum, which is what node.reduce nccl makes of "
       "gradients: set node.reduce to host or none"},
      {{"compression.pull={delta: {codec: {onebit: {block: 65}}}}"},
       "compression.pull.delta.codec: onebit.block is 65; it must be a multiple of 64 between 64 "
       "and "
       "1048576, such as 128"},
      {{"compression.push=dgc", "optimizer.sgd.momentum=0.9"},
       "compression.push: dgc applies momentum on the worker, so the server's optimizer must be "
       "sgd "
       "without: set optimizer.sgd.momentum to 0 and compression.push.dgc.momentum to what it was"},
      {{"compression.rules=[{match: a, push: signum}]", "optimizer=adam"},
       "compression.rules[0].push: signum applies momentum on the worker, so the server's "
       "optimizer "
       "must be sgd without: set optimizer.sgd.momentum to 0 and "
       "compression.rules[0].push.signum.momentum to what it was"},
      {{"compression.push=dgc", "compression.error_feedback=false"},
       "compression.push: dgc adds up what it does not send: set compression.error_feedback to "
       "true"},
      {{"compression.push.qsgd.norm=l2"},
       "compression.push: qsgd with norm l2 may err by more than what it sends, and residuals "
       "would "
       "pile up: set compression.error_feedback to false, or norm to max"},
      {{"compression.push.qsgd.bits=3"},
       "compression.push: qsgd with 3 bits, stochastic rounding and blocks of 128 may err by more "
       "than what it sends, and residuals would pile up: set rounding to nearest, "
       "compression.error_feedback to false, or blocks of at most 64"},
      {{"compression.push.int8.block=131072"},
       "compression.push: int8 with 8 bits, stochastic rounding and blocks of 131072 may err by "
       "more "
       "than what it sends, and residuals would pile up: set rounding to nearest, "
       "compression.error_feedback to false, or blocks of at most 126976"},
      {{"compression.push.qsgd.bits=2"},
       "compression.push: qsgd with 2 bits, stochastic rounding and blocks of 128 may err by more "
       "than what it sends, and residuals would pile up: set rounding to nearest or "
       "compression.error_feedback to false"},
      {{"compression.push.int8.block=100"},
       "compression.push: int8.block is 100; it must be a multiple of 64 between 64 and 1048576, "
       "such as 1024"},
      {{"compression.push={chunked: {chunk: 128, keep: 129}}"},
       "compression.push: chunked.keep is 129; it is 1 to the 128 elements of a chunk "
       "(chunked.chunk), such as 2"},
      {{"compression.pull.int8.block=100"},
       "compression.pull.int8: int8.block is 100; it must be a multiple of 64 between 64 and "
       "1048576, such as 1024"},
      {{"compression.residual_decay=0.5", "compression.error_feedback=false"},
       "compression.residual_decay does nothing without compression.error_feedback: set that to "
       "true, or leave it out"},
      {{"compression.rules=[{push: topk}]"},
       "compression.rules[0].match is missing: say which parameters, as fc*.weight"},
      {{"compression.rules=[{match: a}]"},
       "compression.rules[0].push is missing: say which codec, as none"},
      {{"cluster.lease=1min"},
       "cluster.lease must be shorter than cluster.deadline: else one worker that is gone makes "
       "the others give up before it is counted out"},
      {{"cluster.resend=1min"},
       "cluster.resend must be shorter than cluster.deadline: else nothing is ever sent again"},
      {{"durability.checkpoint=0 steps"},
       "durability.checkpoint is zero: say how often, as 1 epoch, or null for at the end alone"},
  };
  for (const auto& test : cases) {
    const absl::Status status = AfterSets(test.sets);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << test.error;
    EXPECT_EQ(status.message(), std::string("config: ") + test.error);
  }
}

TEST(ConfigValidate, NearMissesAreFine) {
  EXPECT_TRUE(AfterSets({"optimizer.sgd.nesterov=true", "optimizer.sgd.momentum=0.9"}).ok());
  EXPECT_TRUE(AfterSets({"consistency.compensation=delay", "consistency.staleness=1"}).ok());
  EXPECT_TRUE(
      AfterSets({"consistency.compensation=delay", "consistency.staleness=unbounded"}).ok());
  EXPECT_TRUE(AfterSets({"schedule={multistep: {at: [5 steps, 6 steps]}}"}).ok());
  EXPECT_TRUE(AfterSets({"compression.rules=[{match: a, push: }]"}).ok());
  EXPECT_TRUE(AfterSets({"compression.pull=delta", "optimizer=adagrad"}).ok());
  EXPECT_TRUE(AfterSets({"optimizer={delayed_nesterov: {spread: 1}}"}).ok());
  EXPECT_TRUE(
      AfterSets({"optimizer={delayed_nesterov: {spread: 1, every: 2}}", "cluster.workers=1"}).ok());
  EXPECT_TRUE(AfterSets({"optimizer=lamb", "compression.push=factors"}).ok());
  EXPECT_TRUE(AfterSets({"compression.pull={delta: {codec: topk}}", "optimizer=adam"}).ok());
  EXPECT_TRUE(AfterSets({"compression.push=dgc", "optimizer=sgd"}).ok());
  EXPECT_TRUE(AfterSets({"compression.push=factors", "node.reduce=host", "optimizer=adam"}).ok());
  EXPECT_TRUE(AfterSets({"model.meprop=40"}).ok());
  EXPECT_TRUE(AfterSets({"compression.push={qsgd: {bits: 2, rounding: nearest}}"}).ok());
  EXPECT_TRUE(
      AfterSets({"compression.push.qsgd.norm=l2", "compression.error_feedback=false"}).ok());
  EXPECT_TRUE(AfterSets({"data.format=idx", "data.path=/x", "data.batch=5000"}).ok());
}

TEST(ConfigValidate, NamesEveryProblem) {
  EXPECT_EQ(ValidateConfig(Config()).message(),
            "config: model.zoo is missing: say which network to train, as model: {zoo: lenet5} or "
            "model: {onnx: model.onnx}; or model: client, for a program that brings its own\n"
            "config: data.path is missing: format idx needs the folder of the idx files; or say "
            "data.format: synthetic, which needs none");
}

TEST(ConfigValidate, HoldsValuesThatNoFileGaveToTheSchema) {
  Config config = Sound();
  config.mutable_data()->set_batch(0);
  config.mutable_model()->add_hidden(4);
  config.mutable_model()->add_hidden(-4);
  config.mutable_optimizer()->mutable_sgd()->set_learning_rate(
      std::numeric_limits<double>::quiet_NaN());
  config.set_name("../../etc");
  const std::string message(ValidateConfig(config).message());
  EXPECT_THAT(message, HasSubstr("data.batch: 0 is out of range: must be 1 to 1048576"));
  EXPECT_THAT(message, HasSubstr("model.hidden[1]: -4 is out of range: must be at least 1"));
  EXPECT_THAT(message, HasSubstr("learning_rate: expected a number, got \"nan\""));
  EXPECT_THAT(message, HasSubstr("name: expected 1 to 64 letters"));
}

absl::Status OfProgram(const std::string& more) {
  const auto config = ParseConfig("model: client\n" + more, "program");
  EXPECT_TRUE(config.ok()) << config.status();
  return config.ok() ? ValidateConfig(ResolveDefaults(*config)) : config.status();
}

TEST(ConfigValidate, AProgramThatBringsItsModelBringsDataAndOptimizer) {
  EXPECT_TRUE(OfProgram("").ok()) << OfProgram("");
  EXPECT_TRUE(OfProgram("optimizer: {adam: {}}\nschedule: {cosine: {}}").ok());
  const Config config = ResolveDefaults(*ParseConfig("model: client", "program"));
  EXPECT_TRUE(config.optimizer().has_worker());
  EXPECT_GT(config.cluster().segment(), 100000);
  EXPECT_THAT(OfProgram("schedule: {cosine: {}}").message(), HasSubstr("leave schedule out"));
  EXPECT_THAT(OfProgram("node: {reduce: host}").message(), HasSubstr("node.reduce"));
  EXPECT_THAT(OfProgram("consistency: {staleness: 2, compensation: delay}").message(),
              HasSubstr("consistency.compensation"));
  EXPECT_THAT(OfProgram("compression: {push: dgc}").message(), HasSubstr("dgc.momentum to 0"));
  EXPECT_TRUE(OfProgram("compression: {push: {dgc: {momentum: 0}}}").ok());
  EXPECT_THAT(AfterSets({"optimizer=worker"}).message(), HasSubstr("model: client"));
}

}  // namespace
}  // namespace psgd
