// plain_products.h: the oracle's products in place of OpenBLAS's, for a program that makes few of
// them: OpenBLAS would make it thirty times as large.
#ifndef NNGEN_TESTS_PLAIN_PRODUCTS_H
#define NNGEN_TESTS_PLAIN_PRODUCTS_H

void cblas_dgemm(int order, int ta, int tb, int m, int n, int k, double alpha, const double *a,
                 int lda, const double *b, int ldb, double beta, double *c, int ldc);
void cblas_dgemm(int order, int ta, int tb, int m, int n, int k, double alpha, const double *a,
                 int lda, const double *b, int ldb, double beta, double *c, int ldc) {
  enum { kTranspose = 112 };
  (void)order; // row-major
  for (int i = 0; i < m; i++)
    for (int j = 0; j < n; j++) {
      double sum = 0;
      for (int p = 0; p < k; p++)
        sum += (ta == kTranspose ? a[p * lda + i] : a[i * lda + p]) *
               (tb == kTranspose ? b[j * ldb + p] : b[p * ldb + j]);
      c[i * ldc + j] = alpha * sum + (beta != 0 ? beta * c[i * ldc + j] : 0);
    }
}

#endif
