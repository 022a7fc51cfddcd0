// Whether two JSON values are equal.

export function isEqual(one: unknown, other: unknown): boolean {
  if (Object.is(one, other)) return true;
  if (typeof one !== "object" || typeof other !== "object" || one === null || other === null) {
    return false;
  }
  if (Array.isArray(one) !== Array.isArray(other)) return false;
  const keys = Object.keys(one);
  const has = (key: string) =>
    Object.hasOwn(other, key) && isEqual(one[key as keyof object], other[key as keyof object]);
  return keys.length === Object.keys(other).length && keys.every(has);
}
