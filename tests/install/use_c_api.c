#include <stdio.h>
#include <string.h>

#include "cinn_like/c_api.h"

int main(void) {
  CinnFunction* fn = NULL;
  if (CinnCompile("not a graph", "cpu", &fn) == 0 || strlen(CinnLastError()) == 0) {
    fprintf(stderr, "malformed text was compiled, or its error has no message\n");
    return 1;
  }
  printf("cinn_like %s: %s\n", CinnVersion(), CinnLastError());
  return 0;
}
