/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * stmpi.h: error codes and version, shared by every public header of stmpi.
 * It must not include mpi.h or any GPU header.
 */
#ifndef STMPI_H
#define STMPI_H

#ifdef __cplusplus
extern "C" {
#endif

/*
 * Error codes. A call that fails returns the negative of one of these; 0 is success.
 * The numbers are part of the ABI: they are never changed, new ones are added at the end.
 */
enum stmpi_error {
	STMPI_SUCCESS = 0,
	STMPI_EINVAL = 1,     /* an argument is wrong: NULL, out of range, or not a live object */
	STMPI_ENOMEM = 2,     /* memory, threads or file descriptors ran out */
	STMPI_EAGAIN = 3,     /* a bounded resource is full for now; try again after progress */
	STMPI_ENOTSUP = 4,    /* this build, device or provider cannot do it */
	STMPI_ENODEV = 5,     /* no such backend, provider or device here */
	STMPI_ETRUNCATE = 6,  /* the message was longer than the receive buffer */
	STMPI_EPEER = 7,      /* the peer process died or cannot be reached */
	STMPI_ETIMEDOUT = 8,  /* the watchdog ended the wait */
	STMPI_ECANCELED = 9,  /* ended without effect because an earlier operation failed */
	STMPI_ECONFIG = 10,   /* a parameter has an impossible value, or ranks disagree on it */
	STMPI_ENET = 11,      /* the network reported an error */
	STMPI_ENOTREADY = 12, /* an event was not recorded, or has not been reached yet */
};

/**
 * Return a constant one-line text for an error code.
 *
 * @param code a value returned by an stmpi call; the sign is ignored.
 * @return never NULL; "unknown error" for a number that is no code. Owned by the library.
 * Any thread, never blocks.
 */
const char *stmpi_strerror(int code);

/**
 * Return the version of the library that is loaded, such as "0.1.0".
 *
 * @return never NULL, owned by the library. Any thread, never blocks.
 */
const char *stmpi_version(void);

#ifdef __cplusplus
}
#endif
#endif /* STMPI_H */
