/* A worker in C: fits y = 3 x - 1 by gradient descent.
 *
 *     cc examples/toy.c -Iinclude -Lbuild/release/bin -Wl,-rpath,$PWD/build/release/bin -lpsgd -o toy
 *     ps-run examples/cluster.yaml --workers 2 -- sh -c './toy $PSGD_SERVER'
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "psgd.h"

enum { kSamples = 4096, kMostBatch = 4096 };

static void check(psgd_status status) {
  if (status == PSGD_OK) return;
  fprintf(stderr, "toy: %s\n", psgd_last_error());
  exit(1);
}

static float x_of(uint32_t sample) { return (float)(sample % 64) / 32.0f - 1.0f; }

int main(int argc, char** argv) {
  psgd_join_options join = {.size = sizeof join, .device = "cpu, toy"};
  psgd_client run;
  psgd_run config = {.size = sizeof config};
  psgd_share share = {.size = sizeof share};
  static uint32_t batch[kMostBatch];
  const int64_t shape[] = {1};
  float slope = 0, offset = 0;
  if (argc != 2) {
    fprintf(stderr, "usage: toy HOST:PORT\n");
    return 2;
  }
  join.server = argv[1];
  join.name = getenv("PSGD_NAME"); /* under ps-run */
  check(psgd_join(&join, &run));
  check(psgd_get_run(run, &config));
  if (config.batch > kMostBatch || !config.worker_optimizer) {
    fprintf(stderr, "toy: it needs optimizer: worker, and batches of at most %d\n", kMostBatch);
    return 2;
  }
  check(psgd_add_tensor(run, "slope", shape, 1, 0, &slope));
  check(psgd_add_tensor(run, "offset", shape, 1, 0, &offset));
  check(psgd_commit(run, kSamples, 3));

  psgd_status status;
  while ((status = psgd_next_share(run, -1, &share)) == PSGD_OK) {
    double loss = 0;
    uint32_t step, i;
    for (step = 0; step < share.batches; ++step) {
      float d_slope = 0, d_offset = 0;
      psgd_step done = {.size = sizeof done};
      check(psgd_wait(run, -1));
      check(psgd_get(run, 0, &slope, 1));
      check(psgd_get(run, 1, &offset, 1));
      check(psgd_batch(run, step, batch, config.batch));
      for (i = 0; i < config.batch; ++i) {
        const float x = x_of(batch[i]), error = slope * x + offset - (3 * x - 1);
        d_slope += 2 * error * x / (float)config.batch;
        d_offset += 2 * error / (float)config.batch;
        done.loss_sum += error * error;
      }
      slope -= 0.2f * d_slope;
      offset -= 0.2f * d_offset;
      done.samples = config.batch;
      loss = done.loss_sum / config.batch;
      check(psgd_push_weights(run, 0, &slope, 1));
      check(psgd_push_weights(run, 1, &offset, 1));
      check(psgd_end_step(run, &done));
    }
    check(psgd_wait(run, -1));
    if (share.ends_epoch) {
      psgd_result result = {.size = sizeof result, .epoch = share.epoch + 1, .loss = loss};
      check(psgd_report(run, &result));
    }
  }
  if (status != PSGD_OVER) check(status);
  check(psgd_get(run, 0, &slope, 1));
  check(psgd_get(run, 1, &offset, 1));
  printf("y = %.4f x + %.4f\n", slope, offset);
  check(psgd_leave(run, 0, "done"));
  return 0;
}
