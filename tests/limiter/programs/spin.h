/* A kernel that runs for as many nanoseconds as its argument says, on the simulated card. */
#ifndef SPIN_H
#define SPIN_H

static const char spin_ptx[] = ".version 7.0\n.target sm_70\n.address_size 64\n"
                               ".visible .entry weir_spin(.param .u64 ns)\n{\nret;\n}\n";

#endif
