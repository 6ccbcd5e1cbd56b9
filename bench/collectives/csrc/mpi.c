/* One rank under Open MPI: BYTES REPS BATCH... prints the median time of an all-reduce.
 *
 * Open MPI's handles are addresses of its objects. They are declared here, because
 * Debian installs its headers apart from the library.
 */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

typedef struct object object;
extern object ompi_mpi_comm_world, ompi_mpi_float, ompi_mpi_op_sum;
int MPI_Init(int *, char ***);
int MPI_Finalize(void);
int MPI_Comm_rank(object *, int *);
int MPI_Allreduce(const void *, void *, int, object *, object *, object *);
int MPI_Barrier(object *);

#define IN_PLACE ((void *)1)

static double now(void) {
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1e6 + t.tv_nsec * 1e-3;
}

static int order(const void *a, const void *b) {
	double x = *(const double *)a, y = *(const double *)b;
	return (x > y) - (x < y);
}

static double measure(int rank, int bytes, int reps, int batch) {
	int n = bytes / 4;
	float *buf = malloc(bytes);
	double *times = malloc(reps * sizeof *times);
	for (int r = -3; r < reps; r++) {
		for (int i = 0; i < n; i++)
			buf[i] = rank + i % 7;
		MPI_Barrier(&ompi_mpi_comm_world);
		double begin = now();
		for (int b = 0; b < batch; b++)
			MPI_Allreduce(IN_PLACE, buf, n, &ompi_mpi_float, &ompi_mpi_op_sum, &ompi_mpi_comm_world);
		if (r >= 0)
			times[r] = (now() - begin) / batch;
	}
	qsort(times, reps, sizeof *times, order);
	double median = times[reps / 2];
	free(buf);
	free(times);
	return median;
}

int main(int argc, char **argv) {
	int rank;
	MPI_Init(&argc, &argv);
	MPI_Comm_rank(&ompi_mpi_comm_world, &rank);
	for (int i = 1; i + 2 < argc; i += 3) {
		double median = measure(rank, atoi(argv[i]), atoi(argv[i + 1]), atoi(argv[i + 2]));
		if (rank == 0)
			printf("median %s %.3f\n", argv[i], median);
	}
	return MPI_Finalize();
}
