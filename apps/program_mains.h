// What a program does: one function for each, which its own main calls, and so does the binary of
// all programs in a bundle.
#pragma once

int ps_bench_main(int argc, char** argv);
int ps_ctl_main(int argc, char** argv);
int ps_doctor_main(int argc, char** argv);
int ps_run_main(int argc, char** argv);
int ps_server_main(int argc, char** argv);
int ps_sim_main(int argc, char** argv);
int ps_sweep_main(int argc, char** argv);
int ps_worker_main(int argc, char** argv);
