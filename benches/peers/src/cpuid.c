/* CPUID with less in it: Linux lets the instruction fault, and the fault handler leaves bits out of the answer. */
#include "peers.h"

#if defined(__linux__) && defined(__x86_64__)

#include <asm/prctl.h>
#include <cpuid.h>
#include <signal.h>
#include <string.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

/* Bits of leaf 7, subleaf 0 (Intel's manual, volume 2, "CPUID"). */
static const uint32_t avx512_ebx = 1u << 16 | 1u << 17 | 1u << 21 | 1u << 26 | 1u << 27 | 1u << 28 | 1u << 30 | 1u << 31;
static const uint32_t avx512_ecx = 1u << 1 | 1u << 6 | 1u << 11 | 1u << 12 | 1u << 14;
static const uint32_t avx512_edx = 1u << 2 | 1u << 3 | 1u << 8 | 1u << 23;
static const uint32_t vaes_ecx = 1u << 9 | 1u << 10;

static uint32_t left_out_ecx;

static int set_cpuid(int works)
{
	return syscall(SYS_arch_prctl, ARCH_SET_CPUID, works) == 0;
}

static void on_fault(int signal, siginfo_t *info, void *of)
{
	greg_t *registers = ((ucontext_t *)of)->uc_mcontext.gregs;
	const uint8_t *instruction = (const uint8_t *)registers[REG_RIP];
	uint32_t leaf = (uint32_t)registers[REG_RAX], subleaf = (uint32_t)registers[REG_RCX];
	uint32_t eax, ebx, ecx, edx;

	(void)info;
	if (instruction[0] != 0x0f || instruction[1] != 0xa2) {
		/* Any other fault comes again, and ends the process as it would have. */
		sigaction(signal, &(struct sigaction){ .sa_handler = SIG_DFL }, NULL);
		return;
	}
	set_cpuid(1);
	__cpuid_count(leaf, subleaf, eax, ebx, ecx, edx);
	set_cpuid(0);
	if (leaf == 7 && subleaf == 0) {
		ebx &= ~avx512_ebx;
		ecx &= ~left_out_ecx;
		edx &= ~avx512_edx;
	}
	registers[REG_RAX] = eax;
	registers[REG_RBX] = ebx;
	registers[REG_RCX] = ecx;
	registers[REG_RDX] = edx;
	registers[REG_RIP] += 2;
}

int wireseal_mask_cpuid(int with_vaes)
{
	struct sigaction action = { .sa_sigaction = on_fault, .sa_flags = SA_SIGINFO | SA_NODEFER };

	left_out_ecx = with_vaes ? avx512_ecx : avx512_ecx | vaes_ecx;
	return sigaction(SIGSEGV, &action, NULL) == 0 && set_cpuid(0);
}

#else

int wireseal_mask_cpuid(int with_vaes)
{
	(void)with_vaes;
	return 0;
}

#endif
