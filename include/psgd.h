/* libpsgd: any program as a worker of a psgd run.
 *
 * A run whose config says `model: client` takes its parameters, their shapes and first weights from
 * the program that joins first. Shards hold the weights, and the run deals the data: it says which
 * samples of the program's data set are this worker's. A worker with two tensors:
 *
 * clang-format off
 *     psgd_join_options join = {.size = sizeof join, .server = "127.0.0.1:7070"};
 *     psgd_client run;
 *     if (psgd_join(&join, &run) != PSGD_OK) die(psgd_last_error());
 *     psgd_add_tensor(run, "w", (int64_t[]){3, 2}, 2, 0, w);  // tensor 0, with its first weights
 *     psgd_add_tensor(run, "b", (int64_t[]){2}, 1, 0, b);     // tensor 1
 *     psgd_commit(run, samples, epochs);
 *     psgd_share share = {.size = sizeof share};
 *     while (psgd_next_share(run, -1, &share) == PSGD_OK) {   // PSGD_OVER ends it
 *       for (uint32_t i = 0; i < share.batches; ++i) {
 *         psgd_wait(run, -1);                                 // for the weights of this step
 *         psgd_get(run, 0, w, 6);
 *         psgd_get(run, 1, b, 2);
 *         psgd_batch(run, i, indices, batch);                 // which samples to train on
 *         my_optimizer_step(w, b, indices);
 *         psgd_push_weights(run, 0, w, 6);
 *         psgd_push_weights(run, 1, b, 2);
 *         psgd_end_step(run, &(psgd_step){.size = sizeof(psgd_step), .samples = batch});
 *       }
 *       psgd_wait(run, -1);                                   // for the weights after the share
 *     }
 *     psgd_leave(run, 0, "done");
 * clang-format on
 *
 * Every call returns a status. After any but PSGD_OK, psgd_last_error() of the same thread says
 * what failed, where, the likely cause, and what to do. No call aborts, prints, throws, or changes
 * signal handlers, and none waits for longer than its time limit or the run's cluster.deadline. A
 * worker that leaves may take 30 s more, and a second for each 10 MB of its state.
 *
 * Thread-safe: calls for one client wait for each other; calls for several do not. A handle may be
 * wrong or closed: the call then fails with PSGD_INVALID. Clients do not survive fork().
 */
#ifndef PSGD_H_
#define PSGD_H_

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define PSGD_API __attribute__((visibility("default")))
#else
#define PSGD_API
#endif

/* Grows when a function changes its meaning. New functions and new fields at the end of a struct do
 * not change it. */
#define PSGD_ABI_VERSION 1

typedef enum psgd_status {
  PSGD_OK = 0,
  PSGD_AGAIN = 1,       /* the time limit has passed: call again */
  PSGD_OVER = 2,        /* the run is over, or this worker was asked to leave it */
  PSGD_INVALID = 3,     /* an argument is wrong: a handle, a name, a shape, a value */
  PSGD_STATE = 4,       /* a call out of order, such as a push between two steps */
  PSGD_REFUSED = 5,     /* the run refuses: another model, another version, no access */
  PSGD_UNAVAILABLE = 6, /* the server does not answer, or counts this worker out */
  PSGD_DIVERGED = 7,    /* weights or updates are not finite numbers */
  PSGD_INTERNAL = 8,    /* anything else, such as too little memory */
  PSGD_SAVE = 9,        /* after psgd_keep_state: psgd_save_state, then call again */
  PSGD_DATA_LOSS = 10   /* data were lost: of a checkpoint, or of a server */
} psgd_status;

/* One worker of one run; never reused. 0 is none. */
typedef uint64_t psgd_client;

PSGD_API int32_t psgd_abi_version(void);

/* Of the last call in this thread that did not return PSGD_OK. Valid until the next such call. */
PSGD_API const char* psgd_last_error(void);

/* ---- Join ---- */

/* Set `size` to sizeof(psgd_join_options) and all else that you do not need to zero. */
typedef struct psgd_join_options {
  size_t size;
  const char* server; /* HOST:PORT, or several with commas, of which one leads the run */
  /* Of letters, digits, '.', '_', '-'. No other worker has it: a new process takes the place of an
   * earlier one of its name. NULL: made of host and pid. ps-run says the name of its worker in
   * PSGD_NAME. */
  const char* name;
  const char* device;   /* for people: "cpu, 2 threads" */
  const char* tls_dir;  /* folder with ca.crt, worker.crt and worker.key; NULL or "": no TLS */
  const char* log_file; /* appended to; NULL: no log */
  int64_t connect_ms;   /* how long to try; 0: a minute */
  /* The number that this worker wants, plus one; it gets that number if it is free and below
   * cluster.workers. 0: the lowest that is free. ps-run says the number in PSGD_WORKER. */
  uint32_t wanted;
} psgd_join_options;

/* From the first join to the last leave glibc's malloc keeps up to 1 GiB of freed memory for later
 * (mallopt, M_TRIM_THRESHOLD): messages take and free as much as the model in each step. The last
 * leave gives free memory back to the system (malloc_trim); from then on malloc keeps up to 64 MiB.
 * Where the environment sets MALLOC_TRIM_THRESHOLD_ or MALLOC_MMAP_THRESHOLD_, or the same in
 * GLIBC_TUNABLES, psgd leaves malloc as it is. */
PSGD_API psgd_status psgd_join(const psgd_join_options* options, psgd_client* client);

/* What the run's config says. */
typedef struct psgd_run {
  size_t size;      /* set to sizeof(psgd_run) */
  uint32_t worker;  /* this worker's number, from 0 */
  uint32_t workers; /* with how many the run begins */
  uint32_t batch;   /* samples of a worker's step (data.batch) */
  uint32_t epochs;  /* train.epochs; after psgd_commit: of the run */
  uint64_t seed;
  int64_t staleness;        /* -1: unbounded */
  int32_t worker_optimizer; /* 1: push weights (optimizer: worker, or local.steps); 0: gradients */
  char name[128];
  uint32_t local_steps; /* between two exchanges (local.steps; auto: local.most); 1: all exchange */
  /* Of the optimizer on the shards, as the run begins; 0: it has none, or different ones for groups
   * of parameters, or pushes are weights. */
  double learning_rate;
  double momentum;
} psgd_run;

PSGD_API psgd_status psgd_get_run(psgd_client client, psgd_run* run);

/* ---- Model and data ---- */

enum {
  /* A running mean or variance. Its changes are averaged over the workers, without an optimizer. */
  PSGD_STATISTIC = 1,
  /* Weight decay of a shard's optimizer applies. */
  PSGD_DECAY = 2,
  /* In a step most rows do not change, as in an embedding's table: see psgd_push_rows. */
  PSGD_SPARSE = 4
};

/* Tensors get the numbers 0, 1, ... in the order in which they are added: from the front of the
 * network to its end. All are float32, dense, in C order. `first` is copied. */
PSGD_API psgd_status psgd_add_tensor(psgd_client client, const char* name, const int64_t* shape,
                                     int32_t dimensions, int32_t flags, const float* first);

/* Registers the tensors and the size of the data set. The first worker of a run brings model,
 * weights and epochs; for others the run's weights count, and an error names the first tensor that
 * differs. `samples`: at least one batch. `epochs` 0: as the config says. */
PSGD_API psgd_status psgd_commit(psgd_client client, uint64_t samples, uint32_t epochs);

/* ---- Training ---- */

/* Steps that the run has dealt to this worker, each with one batch. */
typedef struct psgd_share {
  size_t size; /* set to sizeof(psgd_share) */
  uint64_t segment;
  uint32_t epoch; /* from 0 */
  uint32_t batches;
  int32_t ends_epoch; /* 1: the last share of this epoch, unless another worker dies */
  /* This worker's rank among those of this segment: a program whose data are a stream may take
   * every ranks-th sample, from number `rank` on, and ignore psgd_batch. */
  uint32_t rank;
  uint32_t ranks;
} psgd_share;

/* Waits for the next share and its weights. PSGD_OVER: there is none. `timeout_ms`: at most so
 * long, then PSGD_AGAIN; below 0: no limit. REQUIRES: all steps of the last share have ended. */
PSGD_API psgd_status psgd_next_share(psgd_client client, int32_t timeout_ms, psgd_share* share);

/* The samples of a batch of the present share, as indices into the data set. `count`: the run's
 * batch. */
PSGD_API psgd_status psgd_batch(psgd_client client, uint32_t batch, uint32_t* indices,
                                size_t count);

/* Waits until the weights of the next step are here; after the last step of a share: those that
 * every worker has at its end. */
PSGD_API psgd_status psgd_wait(psgd_client client, int32_t timeout_ms);

/* Waits until the weights of one tensor are here, for a network that begins its step while its back
 * layers' weights still travel. psgd_wait waits for the others; call it before the first push. */
PSGD_API psgd_status psgd_wait_tensor(psgd_client client, int32_t timeout_ms, uint32_t tensor);

/* Copies the weights of a tensor, as they came last. */
PSGD_API psgd_status psgd_get(psgd_client client, uint32_t tensor, float* values, size_t count);

/* With `optimizer: worker`, and for statistics: this worker's values after its step. What changed
 * since psgd_get is pushed. A tensor that is not pushed did not change. */
PSGD_API psgd_status psgd_push_weights(psgd_client client, uint32_t tensor, const float* values,
                                       size_t count);
/* With an optimizer on the shards: the gradient of the step. */
PSGD_API psgd_status psgd_push_gradient(psgd_client client, uint32_t tensor, const float* values,
                                        size_t count);

/* Either of them, of a tensor whose other rows have not changed: rows of the first dimension,
 * strictly ascending, and the values of one after the other. If the tensor is PSGD_SPARSE and
 * travels as `none`, psgd reads and sends these rows only (docs/compression.md, "Which codec a
 * tensor gets"). Other codecs take the whole tensor, with zeros in the other rows. */
PSGD_API psgd_status psgd_push_rows(psgd_client client, uint32_t tensor, const int64_t* rows,
                                    size_t count, const float* values, size_t elements);

/* Which elements the last push of a tensor sent, if its codec sends single elements and leaves the
 * others for later pushes (topk): 1 for an element that was sent, 0 for the others. With other
 * codecs, or if all elements were sent, 0 for all. A program may set the momentum of sent elements
 * to 0, as DGC does. */
PSGD_API psgd_status psgd_get_sent(psgd_client client, uint32_t tensor, uint8_t* sent,
                                   size_t count);

/* Whether the codec of a tensor that was added is of that kind. */
PSGD_API psgd_status psgd_sends_elements(psgd_client client, uint32_t tensor, int32_t* sends);

/* Whether the step under way ends with an exchange. With local steps (local.steps of the run's
 * config) most do not: nothing is pushed in them, psgd_wait returns at once, and the program goes
 * on with its own weights. Without, every step does. */
PSGD_API psgd_status psgd_exchanges(psgd_client client, int32_t* exchanges);

/* For reports. */
typedef struct psgd_step {
  size_t size; /* set to sizeof(psgd_step) */
  uint64_t samples;
  uint64_t correct;
  double loss_sum;     /* over the samples */
  double seconds_data; /* that the program waited for its batch */
  double seconds_compute;
  int32_t empty; /* 1: the batch made no update, so it is none of the steps that the run counts */
} psgd_step;

/* The step is done and all its updates are pushed. Waits for nothing but the GPUs that encode some
 * of them (see Values on a GPU). A step without a push is counted as well, and no worker waits for
 * it. `step` may be NULL. */
PSGD_API psgd_status psgd_end_step(psgd_client client, const psgd_step* step);

/* ---- Values on a GPU ----
 *
 * A GPU encodes updates that lie in its own memory, so that only payloads come to the host. The
 * payloads are those that the host would make, bit for bit. Encoding on a GPU needs two things: the
 * plugin libpsgd_cudnn.so beside libpsgd.so, or in the folder psgd there, and a codec that shortens
 * the tensor (compression.push). What a codec leaves out stays in the GPU's memory: as many bytes
 * again as the tensor has. Each call restores the calling thread's device. Call cudaSetDevice with
 * the tensors' device before psgd_commit. Otherwise, from CUDA 12 on, the restoring makes a context
 * on the other device, which takes memory. The waits of psgd_end_step, psgd_get_sent and psgd_leave
 * for a GPU have no time limit: a program whose stream hangs waits there. */

/* The values of a tensor that was added lie on this CUDA device. Call this before psgd_commit,
 * which decides where each tensor is coded, and writes it to the log. `first` of psgd_add_tensor
 * and psgd_get remain in the host's memory. */
PSGD_API psgd_status psgd_use_device(psgd_client client, uint32_t tensor, int32_t device);

typedef enum psgd_place {
  PSGD_ON_HOST = 0,   /* push from the host's memory, with the functions of Training */
  PSGD_ON_DEVICE = 1, /* push from the device's memory, with the functions below */
  /* Likewise. The device needs the weights, too: for their difference, or for weight decay. */
  PSGD_ON_DEVICE_WITH_BASE = 2
} psgd_place;

/* Where a tensor is coded, from psgd_commit on: a psgd_place. */
PSGD_API psgd_status psgd_get_place(psgd_client client, uint32_t tensor, int32_t* place);

/* As psgd_push_weights and psgd_push_gradient, from the memory of the tensor's device. Neither
 * waits for the device. `base`: memory of the device with what psgd_get gave last; it may be NULL
 * with PSGD_ON_DEVICE. `stream`: the cudaStream_t that has been given the work that makes the
 * values and the base; NULL: the device's default stream (cudaStreamLegacy). cudaStreamPerThread is
 * refused: it is another stream in each thread. Values and base must not change until
 * psgd_end_step, or psgd_leave, returns.
 *
 * If values are not finite, a call of the step returns PSGD_DIVERGED: a push from a device, of this
 * tensor or a later one, psgd_get_sent, psgd_end_step or psgd_leave. psgd_last_error names the
 * tensor. Only that tensor is not sent, and the program may push it again. A push whose error names
 * an earlier tensor has still taken its own tensor: do not push that one again. After PSGD_DIVERGED
 * the step goes on: call psgd_end_step again, or psgd_leave. If the tensor has several slices (more
 * than 1 Mi elements), what the codec left out of its finite slices may be lost. */
PSGD_API psgd_status psgd_push_device_weights(psgd_client client, uint32_t tensor,
                                              const float* values, const float* base, size_t count,
                                              void* stream);
PSGD_API psgd_status psgd_push_device_gradient(psgd_client client, uint32_t tensor,
                                               const float* values, const float* base, size_t count,
                                               void* stream);

/* ---- State ---- */

/* This program has a state beside the weights, such as its optimizer's and its random numbers:
 * bytes that only it understands. Checkpoints keep it. From now on psgd_next_share and the waits
 * return PSGD_SAVE when a checkpoint wants it: between two shares, or after this worker's last
 * step in a run that was asked to end. */
PSGD_API psgd_status psgd_keep_state(psgd_client client);

/* After PSGD_SAVE: the state as it is now, which is copied: at most 2 GiB. `size` 0: none. */
PSGD_API psgd_status psgd_save_state(psgd_client client, const void* bytes, size_t size);

/* What this worker's program saved in the checkpoint that the run goes on from (ps-run --resume):
 * up to `room` bytes of it, and its whole size; 0: nothing. From the first psgd_next_share on,
 * until the first step has ended. A worker that the checkpoint does not have gets what worker 0
 * saved; one that joins a run under way, in place of another or beside those that it began with,
 * nothing. PSGD_DATA_LOSS: the checkpoint has only a part of the state, because the worker ended
 * while the checkpoint was taken. */
PSGD_API psgd_status psgd_load_state(psgd_client client, void* bytes, size_t room, size_t* size);

/* ---- Reports ---- */

/* What the program measured after `epoch` epochs: shown on the dashboard, in metrics.jsonl and
 * summary.json. Of several workers the first counts. `names` and `values`: further measures, with
 * names of lower-case letters, digits and '_', at most 16. An epoch whose samples are dealt again
 * after a worker's death ends once more: its later results count. */
typedef struct psgd_result {
  size_t size; /* set to sizeof(psgd_result) */
  double epoch;
  double loss;
  double accuracy; /* 0 to 1, or it is PSGD_INVALID; 0: not measured */
  uint64_t samples;
  double seconds;
  const char* const* names;
  const double* values;
  size_t measures;
} psgd_result;

PSGD_API psgd_status psgd_report(psgd_client client, const psgd_result* result);

/* Tells the people who watch the run what may not be meant: ps-run shows it once, and summary.json
 * keeps it as a note. One line of UTF-8. */
PSGD_API psgd_status psgd_note(psgd_client client, const char* text);

/* Where the time went, in seconds since psgd_commit, and bytes. */
typedef struct psgd_timings {
  size_t size; /* set to sizeof(psgd_timings) */
  uint64_t steps;
  double wait;    /* for weights */
  double install; /* decoding weights */
  double encode;  /* coding updates; waiting for GPUs that code, or still compute, them */
  double copy;    /* to and from the program's memory, and differences of weights */
  double control; /* between shares */
  uint64_t bytes_pushed;
  uint64_t bytes_pulled;
} psgd_timings;

PSGD_API psgd_status psgd_get_timings(psgd_client client, psgd_timings* timings);

/* ---- Leave ---- */

/* Ends the client, whatever state it is in; its handle is closed, even after an error. If steps of
 * its share are left, they are dealt again, and what codecs left behind is pushed. `failed`: the
 * program goes down with an error, which `reason` tells; it ends a call that is under way in
 * another thread, and otherwise waits for that. */
PSGD_API psgd_status psgd_leave(psgd_client client, int32_t failed, const char* reason);

#ifdef __cplusplus
}
#endif

#endif /* PSGD_H_ */
