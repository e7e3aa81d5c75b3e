// Small wishes kept between visits; a browser that forbids it is asked no further.

export function recall(name: string): string | null {
  try {
    return localStorage.getItem(`pellucid.${name}`);
  } catch {
    return null;
  }
}

export function remember(name: string, value: string): void {
  try {
    localStorage.setItem(`pellucid.${name}`, value);
  } catch {
    // Private windows and notebook frames may forbid it: the wish then lasts as long as the page.
  }
}
